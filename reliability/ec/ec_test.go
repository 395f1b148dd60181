// SPDX-License-Identifier: Apache-2.0

package ec_test

import (
	"fmt"
	"testing"

	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
)

// schemeOf returns a maker of schemes configured as c, which must be valid.
func schemeOf(c ec.Config) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := ec.New(c)
		if err != nil {
			panic(err)
		}
		return s
	}
}

// TestConformance runs the suite with codes of many shapes, with room for all
// parity, for little and for none.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		config ec.Config
		pool   int
		seeds  int
	}{
		{ec.Config{Code: ec.MDS, K: 32, M: 8}, 1 << 20, 60},
		{ec.Config{Code: ec.XOR, K: 32, M: 8}, 1 << 20, 60},
		{ec.Config{Code: ec.MDS, K: 4, M: 2, BetaMilli: 100}, 40, 30},
		{ec.Config{Code: ec.XOR, K: 5, M: 3, WholeSubmessage: true}, 12, 30},
		{ec.Config{Code: ec.MDS, K: 1, M: 1}, 7, 20},
		{ec.Config{Code: ec.MDS, K: 224, M: 31, WholeSubmessage: true}, 62, 20},
		{ec.Config{Code: ec.XOR, K: 10, M: 10}, 0, 20},
	} {
		t.Run(fmt.Sprintf("%v,%d+%d,room=%d", c.config.Code, c.config.K, c.config.M, c.pool), func(t *testing.T) {
			schemetest.Suite{New: schemeOf(c.config), Seeds: c.seeds, ParityPool: c.pool}.Run(t)
		})
	}
}
