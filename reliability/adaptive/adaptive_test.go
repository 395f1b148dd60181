// SPDX-License-Identifier: Apache-2.0

package adaptive_test

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
)

func newScheme() scheme.Scheme {
	s, err := adaptive.New(adaptive.Config{})
	if err != nil {
		panic(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		pool int
	}{{"room for parity", 1 << 12}, {"little room", 20}, {"no room", 0}} {
		t.Run(c.name, func(t *testing.T) { schemetest.Suite{New: newScheme, ParityPool: c.pool}.Run(t) })
	}
}
