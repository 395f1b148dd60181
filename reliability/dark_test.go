// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestDarkPathIsInUseAgain: when a path carries packets again, after seconds in which it carried none, both ways or only data, what stood
// still goes on within the 250 ms in which a ping finds that out, and ten round trips. Timers alone have backed off to a second by then.
func TestDarkPathIsInUseAgain(t *testing.T) {
	const rate, n = 200 * units.Mbit, 8 * units.MiB
	for _, name := range []string{"adaptive", "sr-nack", "sr", "ec-mds"} {
		for _, rtt := range []units.Duration{2 * ms, 25 * ms} {
			for _, dataOnly := range []bool{false, true} {
				for _, dark := range []units.Duration{700 * ms, 1300 * ms, 3700 * ms, 10700 * ms} {
					p := newPair(t, setup{
						net: sim.Config{Rate: 20 * units.Gbit, Seed: 7, Link: sim.Link{Rate: rate, Queue: rate.Bytes(25 * ms), Delay: rtt / 2}},
						qp:  sdr.QPConfig{MTU: 4096}, conn: reliability.Config{Rate: 190 * units.Mbit},
						scheme: func() scheme.Scheme {
							s, err := schemes.New(name, schemes.Params{})
							require.NoError(t, err)
							return s
						},
					})
					ideal := p.timed(n)
					from := p.net.Now().Add(50*ms + 150*ms) // timed waits for 50 ms first
					p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
						if now := p.net.Now(); now >= from && now < from.Add(dark) && (!dataOnly || i.Direction == sim.AtoB) {
							return sim.Drop
						}
						return sim.Deliver
					})
					late := p.timed(n) - ideal - dark
					require.LessOrEqual(t, late, 250*ms+10*rtt, "%s, round trip %v, dark for %v, data only: %v", name, rtt, dark, dataOnly)
				}
			}
		}
	}
}
