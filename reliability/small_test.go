// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// allSchemes are all that the module has, by name.
func allSchemes(t testing.TB) map[string]func() scheme.Scheme {
	made := func(s scheme.Scheme, err error) scheme.Scheme { require.NoError(t, err); return s }
	coded := func(k ec.Code) func() scheme.Scheme {
		return func() scheme.Scheme { return made(ec.New(ec.Config{Code: k, K: 32, M: 8})) }
	}
	return map[string]func() scheme.Scheme{
		"none": none.New,
		"sr":   newSR(t, sr.RTO), "sr-nack": newSR(t, sr.NACK),
		"ec-xor": coded(ec.XOR), "ec-mds": coded(ec.MDS),
		"adaptive": func() scheme.Scheme { return made(adaptive.New(adaptive.Config{})) },
	}
}

// withPaths are allSchemes and those that choose paths.
func withPaths(t testing.TB) map[string]func() scheme.Scheme {
	all := allSchemes(t)
	for name, c := range map[string]strack.Config{"strack": {}, "strack-p": {Parity: true}} {
		all[name] = func() scheme.Scheme {
			s, err := strack.New(c)
			require.NoError(t, err)
			return s
		}
	}
	return all
}

// A stream keeps a number of unfinished transfers of one size in one direction.
type stream struct {
	p          *pair
	from       int
	size       units.Bytes
	src, dst   *sdr.MR
	send, recv []*reliability.Transfer // in order, the oldest first
	finished   int
}

func (p *pair) stream(from int, size units.Bytes, depth int) *stream {
	s := &stream{p: p, from: from, size: size, src: p.mr(from, size, 0), dst: p.mr(1-from, size, 0)}
	for range depth {
		s.start()
	}
	return s
}

func (s *stream) start() {
	r, err := s.p.conn[1-s.from].StartRecv(s.dst, 0, s.size)
	require.NoError(s.p.t, err)
	t, err := s.p.conn[s.from].StartSend(s.src, 0, s.size, reliability.SendOptions{})
	require.NoError(s.p.t, err)
	s.send, s.recv = append(s.send, t), append(s.recv, r)
}

// turn replaces transfers that have ended.
func (s *stream) turn() {
	for len(s.send) > 0 && finished(s.send[0]) && finished(s.recv[0]) {
		require.NoError(s.p.t, s.send[0].Err())
		require.NoError(s.p.t, s.recv[0].Err())
		s.send, s.recv = s.send[1:], s.recv[1:]
		s.finished++
		s.start()
	}
}

// TestSmallTransfersStayFast: without a rate, on a round trip so short that only the
// receiver's window limits, the thousandth small transfer takes what the first took.
// A transfer that ends before its receiver's core says anything is a sign of life, too.
func TestSmallTransfersStayFast(t *testing.T) {
	const window = 128 * units.KiB
	sizes, depths, directions := []units.Bytes{1, 4096, 64 * units.KiB}, []int{1, 16}, []int{1, 2}
	if race.Enabled {
		sizes, depths, directions = sizes[:1], depths[1:], directions[1:]
	}
	for name, newScheme := range allSchemes(t) {
		for _, size := range sizes {
			for _, depth := range depths {
				for _, n := range directions {
					t.Run(fmt.Sprintf("%s, %v, %d at a time, %d directions", name, size, depth, n), func(t *testing.T) {
						p := newPair(t, setup{
							net: sim.Config{Rate: 10 * units.Gbit, Seed: 1, RecvBurst: window, Link: sim.Link{Delay: 25 * units.Microsecond}},
							qp:  sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB}, scheme: newScheme,
						})
						var streams []*stream
						for i := range n {
							streams = append(streams, p.stream(i, size, depth))
						}
						// turns moves so many more transfers in each direction.
						turns := func(n int) units.Duration {
							begun := p.net.Now()
							from := streams[0].finished
							p.until(100*units.Second, func() bool {
								done := true
								for _, s := range streams {
									s.turn()
									done = done && s.finished >= from+n
								}
								return done
							})
							return p.net.Now().Sub(begun)
						}
						few := max(10, int(window/max(size, 4096)/2)) // half of what the window holds
						first := turns(few)
						turns(10 * few)
						last := turns(few)
						require.LessOrEqual(t, last, 2*first, "the first %d took %v, as many after ten times as many %v", few, first, last)
					})
				}
			}
		}
	}
}

// TestProbesOfShortTransfers: on a short round trip a transfer of one packet that is acknowledged in time sends no probe beside
// it; one that loses its packet sends one when the acknowledgement is overdue, and ends before any timer does.
func TestProbesOfShortTransfers(t *testing.T) {
	for _, name := range []string{"sr-nack", "adaptive"} {
		for _, drop := range []float64{0, 0.05} {
			t.Run(fmt.Sprintf("%s, drop %g per packet", name, drop), func(t *testing.T) {
				p := newPair(t, setup{
					net:    sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{Delay: 50 * units.Microsecond, Loss: sim.Loss{Drop: drop}}},
					qp:     sdr.QPConfig{MTU: 4096, Channels: 4},
					scheme: allSchemes(t)[name],
				})
				s := p.stream(0, 4096, 4)
				p.until(10*units.Second, func() bool { s.turn(); return s.finished >= 400 })
				stats := p.conn[0].Stats()
				t.Logf("%d probes, %d repeats, %d timers", stats.QP.Probes, stats.Units.Retransmitted, stats.Units.Timeouts)
				if drop == 0 {
					require.LessOrEqual(t, stats.QP.Probes, uint64(8), "until the round trip is known")
					return
				}
				require.NotZero(t, stats.Units.Retransmitted)
				require.NotZero(t, stats.QP.Probes)
				require.Less(t, stats.Units.Timeouts, stats.Units.Retransmitted/4)
			})
		}
	}
}
