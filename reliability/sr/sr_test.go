// SPDX-License-Identifier: Apache-2.0

package sr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
)

// schemeOf returns a maker of schemes configured as c, which must be valid.
func schemeOf(c sr.Config) func() scheme.Scheme {
	return func() scheme.Scheme {
		s, err := sr.New(c)
		if err != nil {
			panic(err)
		}
		return s
	}
}

func makeScheme(mode sr.Mode) func() scheme.Scheme { return schemeOf(sr.Config{Mode: mode}) }

func TestTransfersEnd(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, loss := range []schemetest.PPM{0, 1000, 10000, 100000} {
			c := schemetest.Case{Seed: 1, Units: 3000, Link: schemetest.Link{Loss: loss}}
			r, err := c.Run(makeScheme(mode))
			require.NoError(t, err)
			require.Zero(t, r.Missing)
			require.LessOrEqual(t, int(r.Sender.Retransmitted), len(r.Faults), "repeats only what was lost")
			require.Zero(t, r.Sender.Spurious)
		}
	}
}

func TestConformance(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		s := makeScheme(mode)
		t.Run(s().Name(), func(t *testing.T) { schemetest.Suite{New: s}.Run(t) })
	}
}
