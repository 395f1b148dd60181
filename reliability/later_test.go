// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestLaterConnIsNoSlowerThanTheFirst: what other Conns to the same peer have told of the path spares a new one the start, or nothing. It
// must not be slower than one that knows nothing, whatever they have sent, and however long ago.
func TestLaterConnIsNoSlowerThanTheFirst(t *testing.T) {
	const n, small = 32 * units.MiB, 4 * units.KiB
	cold := unknownRate(t).timed(n)
	for _, c := range []struct {
		name   string
		before func(p *pair)
	}{
		{"one message before", func(p *pair) { p.timed(small) }},
		{"short messages for long", func(p *pair) {
			for range 100 {
				p.timed(small)
			}
		}},
		{"bulk before", func(p *pair) { p.timed(128 * units.MiB) }},
		{"bulk, and a short pause", func(p *pair) {
			p.timed(128 * units.MiB)
			p.run(25 * units.Second)
		}},
		{"bulk, and a long pause", func(p *pair) {
			p.timed(128 * units.MiB)
			p.run(2 * units.Minute)
		}},
		{"bulk, and other Conns with a message each", func(p *pair) {
			p.timed(128 * units.MiB)
			for range 8 {
				p.another()
				p.timed(small)
			}
		}},
	} {
		p := unknownRate(t)
		c.before(p)
		p.another()
		took := p.timed(n)
		t.Logf("%s: %.2f of the time of the first", c.name, float64(took)/float64(cold))
		require.LessOrEqual(t, float64(took), 1.02*float64(cold), c.name)
	}
}

// TestPauseCostsNothing: a sender that had nothing to send for long has no queue to drain before it goes on.
func TestPauseCostsNothing(t *testing.T) {
	p := unknownRate(t)
	const n = 32 * units.MiB
	for range 4 {
		p.timed(n)
	}
	warm := p.timed(n)
	for _, pause := range []units.Duration{units.Second, units.Minute} {
		p.run(pause)
		took := p.timed(n)
		t.Logf("after %v: %.3f of the time without", pause, float64(took)/float64(warm))
		require.LessOrEqual(t, float64(took), 1.02*float64(warm), "%v", pause)
	}
}
