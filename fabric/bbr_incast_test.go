// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestBBRIncast: 32 senders that begin at once, at one switch that marks what finds more than a threshold waiting. None of their timers
// runs out, and from the 11th round trip on no more than twice the threshold waits.
func TestBBRIncast(t *testing.T) {
	const (
		senders   = 32
		delay     = units.Microsecond
		threshold = 400 * units.KB
		size      = 4 * units.MiB
		rounds    = 400
	)
	for _, line := range []units.Rate{25 * units.Gbit, 100 * units.Gbit} {
		for _, mode := range []rc.Mode{rc.GBN, rc.IRN} {
			for _, mtu := range []units.Bytes{1000, 4096} {
				var flows []workload.Flow
				for i := range senders {
					flows = append(flows, workload.Flow{Src: i, Dst: senders, Size: size})
				}
				// IRN's low timeout of 100 µs is less than what waits at the threshold takes at 25 Gbit/s.
				r := rc.Config{Mode: mode, Congestion: congestion.BBR(), RTOLow: 320 * units.Microsecond}
				s := build(t, star(senders+1, line, delay), Config{
					MTU: mtu, Transport: r.Factory(), Buffer: Buffer{Size: 32 * units.MiB}, ECN: []ECN{{KMin: threshold, KMax: threshold, PMax: 1}},
				}, flows)
				rtt := des.Span(4*delay) + 2*des.Serialization(mtu+64, line) + 2*des.Serialization(64, line)
				var first, later units.Bytes
				for at := rtt / 16; at < rounds*rtt; at += rtt / 16 {
					s.Run(at)
					if q := s.Queued(senders+1, senders); at < 10*rtt {
						first = max(first, q)
					} else {
						later = max(later, q)
					}
				}
				s.Run(s.Now() + des.Span(units.Second)) // timeouts are counted when messages are done
				require.True(t, s.Done())
				t.Logf("%v, %v, %v: longest queue %.2f thresholds in the first ten round trips, %.2f after, %d timeouts, %d repeated", line, mode, mtu,
					float64(first)/float64(threshold), float64(later)/float64(threshold), s.Result().Timeouts, s.Result().Packets.Retransmitted)
				assert.Zero(t, s.Result().Timeouts)
				assert.LessOrEqual(t, later, 2*threshold)
			}
		}
	}
}
