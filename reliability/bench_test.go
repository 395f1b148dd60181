// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// BenchmarkInFlight moves transfers of one packet, so many of them at a time: what a
// Conn does for one should not depend much on how many others there are.
func BenchmarkInFlight(b *testing.B) {
	for _, name := range []string{"sr-nack", "ec-mds"} {
		for _, depth := range []int{1, 64, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, depth), func(b *testing.B) {
				p := newPair(b, setup{
					net:    sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * units.Microsecond}},
					qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
					scheme: allSchemes(b)[name],
				})
				s := p.stream(0, 4096, depth)
				for b.Loop() {
					from := s.finished
					p.until(units.Second, func() bool { s.turn(); return s.finished > from })
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(s.finished), "µs/transfer")
			})
		}
	}
}

// BenchmarkPending moves transfers of one packet, one after the other, while so many receives are posted ahead.
func BenchmarkPending(b *testing.B) { benchmarkPending(b, startRecv, startSend) }

// BenchmarkPendingSends is BenchmarkPending where it is the sends that are posted ahead.
func BenchmarkPendingSends(b *testing.B) { benchmarkPending(b, startSend, startRecv) }

func startSend(p *pair, src, _ *sdr.MR) (*reliability.Transfer, error) {
	return p.conn[0].StartSend(src, 0, 4096, reliability.SendOptions{})
}

func startRecv(p *pair, _, dst *sdr.MR) (*reliability.Transfer, error) {
	return p.conn[1].StartRecv(dst, 0, 4096)
}

// benchmarkPending posts one half of transfers ahead, and measures how long they take once they meet the other.
func benchmarkPending(b *testing.B, ahead, meet func(p *pair, src, dst *sdr.MR) (*reliability.Transfer, error)) {
	for _, pending := range []int{1, 1000, 20_000} {
		b.Run(fmt.Sprint(pending), func(b *testing.B) {
			p := newPair(b, setup{
				net:    sim.Config{Rate: 10 * units.Gbit, Seed: 1, Link: sim.Link{Delay: 50 * units.Microsecond}},
				qp:     sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
				scheme: allSchemes(b)["sr-nack"],
			})
			src, dst := p.mr(0, 4096, 1), p.mr(1, 4096, 0)
			post := func() {
				_, err := ahead(p, src, dst)
				require.NoError(b, err)
			}
			for range pending {
				post()
			}
			p.run(100 * ms)
			for b.Loop() {
				t, err := meet(p, src, dst)
				require.NoError(b, err)
				p.until(units.Second, func() bool { return finished(t) })
				post()
			}
		})
	}
}
