// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestRateIsFound: without a configured rate, on a round trip of 25 ms, the rate
// of the bottleneck is found, whatever is lost in the network.
func TestRateIsFound(t *testing.T) {
	for _, drop := range []float64{0, 1e-3, 1e-2} {
		p := newPair(t, setup{
			net: sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{
				Rate: units.Gbit, Queue: 3 * units.MiB, Delay: 12500 * units.Microsecond, Loss: sim.Loss{Drop: drop},
			}},
			qp: sdr.QPConfig{MTU: 4096}, scheme: newSR(t, sr.NACK),
		})
		const n = 128 * units.MiB
		ideal := units.Gbit.Time(n) + 25*ms
		cold, warm := p.timed(n), units.Duration(0)
		for range 3 {
			warm = p.timed(n)
			t.Logf("drop %g per packet: %.3f of ideal, paced at %v", drop, float64(warm)/float64(ideal), p.conn[0].Stats().Rate)
		}
		s := p.conn[0].Stats().Units
		t.Logf("drop %g per packet: cold %.3f of ideal, warm %.3f; %d sent, %d again, %d of them spurious",
			drop, float64(cold)/float64(ideal), float64(warm)/float64(ideal), s.Sent, s.Retransmitted, s.Spurious)
		require.Less(t, float64(cold), 1.6*float64(ideal))
		require.Less(t, float64(warm), 1.2*float64(ideal))
	}
}

// TestRateIsFoundByShortTransfers: a transfer of a few round trips, or of less than one,
// must not keep the search from ending: what it asks for too much is evidence enough.
func TestRateIsFoundByShortTransfers(t *testing.T) {
	for _, n := range []units.Bytes{units.MiB, 8 * units.MiB} {
		for _, rate := range []units.Rate{100 * units.Mbit, units.Gbit} {
			p := newPair(t, setup{
				net: sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{
					Rate: rate, Queue: 3 * units.MiB, Delay: 12500 * units.Microsecond, Loss: sim.Loss{Drop: 1e-3},
				}},
				qp: sdr.QPConfig{MTU: 4096}, scheme: newSR(t, sr.NACK),
			})
			ideal := rate.Time(n) + 25*ms
			cold, warm := p.timed(n), units.Duration(0)
			for i := range 40 {
				if took := p.timed(n); i >= 30 {
					warm += took / 10
				}
			}
			s := p.conn[0].Stats()
			t.Logf("%v at %v: cold %.2f of ideal, warm %.3f on average, paced at %v; %d of %d units repeated",
				n, rate, float64(cold)/float64(ideal), float64(warm)/float64(ideal), s.Rate, s.Units.Retransmitted, s.Units.Sent)
			require.Less(t, float64(s.Rate), 1.3*float64(rate))
			require.Less(t, float64(cold), 5*float64(ideal))
			require.Less(t, float64(warm), 1.5*float64(ideal))
		}
	}
}

// TestConfiguredRateTooHigh: a bottleneck 10 % below the configured rate.
func TestConfiguredRateTooHigh(t *testing.T) {
	p := newPair(t, setup{
		net: sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{
			Rate: 900 * units.Mbit, Queue: 3 * units.MiB, Delay: 5 * ms, Loss: sim.Loss{Drop: 1e-3},
		}},
		qp: sdr.QPConfig{MTU: 4096}, scheme: newSR(t, sr.NACK), conn: reliability.Config{Rate: units.Gbit},
	})
	const n = 64 * units.MiB
	took := p.timed(n)
	goodput := units.RateOf(n, took-10*ms)
	t.Logf("goodput %v of a bottleneck of 900 Mbit/s", goodput)
	require.Greater(t, goodput, 900*units.Mbit*999/1000*95/100)
}

// TestRateIsFoundWithParity: what arrives of parity has been delivered, so that a code's share
// of what is sent isn't taken for loss.
func TestRateIsFoundWithParity(t *testing.T) {
	for _, name := range []string{"ec-xor", "ec-mds", "adaptive"} {
		for _, drop := range []float64{0, 1e-3} {
			p := newPair(t, setup{
				net: sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{
					Rate: units.Gbit, Queue: 3 * units.MiB, Delay: 12500 * units.Microsecond, Loss: sim.Loss{Drop: drop},
				}},
				qp: sdr.QPConfig{MTU: 4096}, scheme: allSchemes(t)[name],
			})
			for _, n := range []units.Bytes{16 * units.MiB, 64 * units.MiB} {
				// At best a fifth of the rate is for the code's parity.
				ideal := units.Gbit.Time(n)*5/4 + 25*ms
				cold, warm := p.timed(n), units.Duration(0)
				for range 4 {
					warm = p.timed(n)
				}
				s := p.conn[0].Stats()
				t.Logf("%s, %v, drop %g per packet: cold %.2f of the ideal, warm %.3f, paced at %v", name, n, drop,
					float64(cold)/float64(ideal), float64(warm)/float64(ideal), s.Rate)
				require.Less(t, float64(cold), 4*float64(ideal))
				require.Less(t, float64(warm), 1.4*float64(ideal))
			}
		}
	}
}

// TestIdleGapsDontLowerTheRate: a link that was idle is no slower for it.
func TestIdleGapsDontLowerTheRate(t *testing.T) {
	for _, name := range []string{"sr-nack", "ec-mds", "adaptive"} {
		for _, n := range []units.Bytes{64 * units.KiB, 256 * units.KiB, units.MiB} {
			p := newPair(t, setup{
				net: sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{
					Rate: 100 * units.Mbit, Queue: 3 * units.MiB, Delay: 12500 * units.Microsecond,
				}},
				qp: sdr.QPConfig{MTU: 4096}, scheme: allSchemes(t)[name],
			})
			for range 2 {
				p.timed(16 * units.MiB)
			}
			found := p.conn[0].Stats().Rate
			for i := range 200 { // timed waits for two round trips each time
				p.timed(n)
				p.run(units.Duration(i%13) * 4 * ms)
			}
			kept := p.conn[0].Stats().Rate
			t.Logf("%s, %v: paced at %v, after 200 short transfers at %v", name, n, found, kept)
			require.Greater(t, float64(found), 0.8*100e6)
			require.Greater(t, float64(kept), 0.8*float64(found))
			require.Less(t, float64(kept), 3*float64(found), "nor faster")
		}
	}
}

// TestTransfersThatLoseNothing: a controller hears of no loss where there is none, and goes on from what it had at the end of the
// transfer before.
func TestTransfersThatLoseNothing(t *testing.T) {
	factory, err := congestion.Swift(congestion.SwiftDefaults())
	require.NoError(t, err)
	p := newPair(t, setup{
		net: sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 5 * ms}},
		qp:  sdr.QPConfig{MTU: 4096}, scheme: newSR(t, sr.NACK),
		conn: reliability.Config{Congestion: congestion.Spec{Name: "swift", New: func(p congestion.Path) congestion.Controller {
			return unspoilt{factory(p), t}
		}}},
	})
	const n = 4 * units.MiB
	first := p.timed(n)
	for range 8 {
		p.timed(n)
	}
	require.Less(t, p.timed(n), first/2, "the window has grown by a packet each round trip")
}

// An unspoilt controller hears of no loss.
type unspoilt struct {
	congestion.Controller
	t *testing.T
}

func (u unspoilt) OnLoss(_ units.Instant, l congestion.Loss) {
	u.t.Errorf("a loss of %v, %v", l.Bytes, l.Kind)
}

// TestManySmallTransfersKeepTheirPace: on a path of which nothing is known, sixteen small transfers under way take a round trip and a
// half each, for the buffer, the packet and the word that it is there, as long as the link carries them: the controller hears of all
// that was sent, though such a transfer ends with no acknowledgement but the one that it is whole, and its parity with none.
func TestManySmallTransfersKeepTheirPace(t *testing.T) {
	const depth, rounds = 16, 30
	for _, name := range []string{"sr", "sr-nack", "adaptive", "ec-mds"} {
		for _, c := range []struct {
			rtt        units.Duration
			size       units.Bytes
			configured units.Rate
		}{{2 * ms, 64, 0}, {2 * ms, 4096, 0}, {25 * ms, 4096, 0}, {25 * ms, 64 * units.KiB, 0}, {2 * ms, 4096, 500 * units.Mbit}} {
			if name == "ec-mds" && c.rtt < 25*ms {
				continue // with eight units of parity each it is the link that limits
			}
			t.Run(fmt.Sprintf("%s, %v, RTT %v, rate %v", name, c.size, c.rtt, c.configured), func(t *testing.T) {
				p := newPair(t, setup{
					net:    sim.Config{Rate: 500 * units.Mbit, Seed: 1, Link: sim.Link{Delay: c.rtt / 2}},
					qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
					conn:   reliability.Config{Rate: c.configured},
					scheme: allSchemes(t)[name],
				})
				s := p.stream(0, c.size, depth)
				turns := func() int {
					before, end := s.finished, p.net.Now().Add(rounds*c.rtt)
					for p.net.Now() < end {
						s.turn()
						p.step(end)
					}
					return s.finished - before
				}
				turns() // until the start is over
				require.Greater(t, turns(), 85*depth*rounds*2/3/100, "of %d", depth*rounds*2/3)
			})
		}
	}
}
