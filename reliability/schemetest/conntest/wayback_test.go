// SPDX-License-Identifier: Apache-2.0

package conntest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestWayBack: a way back with a hundredth of the rate doesn't hold a transfer up, and what goes there, headers included, is as
// docs/results/reliability.md says.
func TestWayBack(t *testing.T) {
	const rate, header, size = 100 * units.Mbit, 66, 48 * units.MiB
	for _, rtt := range []units.Duration{20 * ms, 600 * ms} {
		for _, name := range []string{"sr", "sr-nack", "adaptive", "strack"} {
			for _, part := range []units.Rate{1, 100, 400} {
				back := sim.Link{Delay: rtt / 2, Rate: rate / part, Queue: 64 * units.KiB}
				s := setup{
					net:  sim.Config{HeaderBytes: header, Link: sim.Link{Delay: rtt / 2, Rate: rate}, Back: &back},
					qp:   sdr.QPConfig{MTU: 4096},
					conn: reliability.Config{Rate: rate / 1000 * 983}, // of user data
				}
				w, err := newWorld(s, 1, rand.New(rand.NewPCG(1, 1)), func() scheme.Scheme {
					made, err := schemes.New(name, schemes.Params{})
					require.NoError(t, err)
					return made
				})
				require.NoError(t, err)
				before, begun := w.conn[1].Stats().QP.Control, w.net.Now()
				m, err := w.begin(0, int(size), int(size))
				require.NoError(t, err)
				require.NoError(t, w.until(func() (bool, error) { return m.finished(), nil }))
				require.NoError(t, m.check())
				c := w.conn[1].Stats().QP.Control
				bytes := c.BytesSent - before.BytesSent + header*(c.DatagramsSent-before.DatagramsSent)
				ratio := float64(w.net.Now().Sub(begun)) / float64(s.conn.Rate.Time(size)+rtt)
				perMB := float64(bytes) / (float64(size) / 1e6)
				t.Logf("round trip %v, %-8s, way back 1/%d: %.2f of the ideal, %.0f bytes back for each MB", units.FormatDuration(rtt), name, part, ratio, perMB)
				if part <= 100 {
					require.Less(t, ratio, 1.1, name)
				}
				if rtt > 100*ms && name != "strack" {
					require.Less(t, perMB, 1000., name)
				}
				require.NoError(t, w.close())
			}
		}
	}
}
