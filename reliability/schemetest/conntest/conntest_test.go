// SPDX-License-Identifier: Apache-2.0

package conntest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest/conntest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
)

// schemes are those that come with the module.
var schemes = map[string]func() (scheme.Scheme, error){
	"none":     func() (scheme.Scheme, error) { return none.New(), nil },
	"sr":       func() (scheme.Scheme, error) { return sr.New(sr.Config{}) },
	"sr-nack":  func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) },
	"ec-xor":   func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8}) },
	"ec-mds":   func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) },
	"adaptive": func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) },
	"strack":   func() (scheme.Scheme, error) { return strack.New(strack.Config{}) },
}

func suite(t *testing.T, name string) conntest.Suite {
	seeds := 10
	if race.Enabled { // it slows everything, and there is one goroutine to watch
		seeds = 1
	}
	return conntest.Suite{Seeds: seeds, New: func() scheme.Scheme {
		s, err := schemes[name]()
		require.NoError(t, err)
		return s
	}}
}

func TestConn(t *testing.T) {
	for name := range schemes {
		t.Run(name, func(t *testing.T) { suite(t, name).Run(t) })
	}
}
