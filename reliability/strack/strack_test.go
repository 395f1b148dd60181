// SPDX-License-Identifier: Apache-2.0

package strack_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
)

func makeScheme(c strack.Config) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := strack.New(c)
		if err != nil {
			panic(err)
		}
		return s
	}
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]strack.Config{"clocked": {}, "bitmap": {Bitmap: true}, "parity": {Parity: true}} {
		t.Run(name, func(t *testing.T) { schemetest.Suite{New: makeScheme(c)}.Run(t) })
	}
}

func TestName(t *testing.T) {
	require.Equal(t, "strack", makeScheme(strack.Config{})().Name())
	require.Equal(t, "strack-p", makeScheme(strack.Config{Parity: true})().Name())
}
