// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestEndsAgree: whenever a receiver gives a transfer up, the sender's half ends soon, and doesn't say that the receiver has
// everything when the receiver says that it hasn't. The transfer is given up after each number of steps that it takes, with
// one message or several, of which one or more are posted at a time, a buffer that it fills and a longer one, and packets
// that get lost, its announcement among them.
func TestEndsAgree(t *testing.T) {
	cause := errors.New("enough")
	for _, c := range []struct {
		name           string
		scheme         func(testing.TB) func() scheme.Scheme
		length, buffer units.Bytes
		message        units.Bytes
		window         int
	}{
		{"nothing", newAdaptive, 0, 0, 0, 0},
		{"nothing in a buffer", newAdaptive, 0, 5000, 0, 0},
		{"one packet", newAdaptive, 700, 700, 0, 0},
		{"one message", newAdaptive, 5000, 5000, 0, 0},
		{"a longer buffer", newAdaptive, 5000, 20_000, 0, 0},
		{"messages one by one", func(t testing.TB) func() scheme.Scheme { return newSR(t, sr.NACK) }, 5000, 5000, 1024, 1},
		{"messages, three at a time", newAdaptive, 10_000, 12_000, 2048, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, drop := range []float64{0, 0.2} {
				p := newPair(t, setup{net: lossy(drop), qp: smallQP, scheme: c.scheme(t), conn: reliability.Config{MessageSize: c.message, Window: c.window}})
				src, dst := p.mr(0, max(c.length, 1), 1), p.mr(1, max(c.buffer, 1), 0)
				whole := 0
				for steps := 0; whole < 3; steps += 1 + steps/100 {
					what := fmt.Sprintf("given up after %d steps, drop %g", steps, drop)
					r, err := p.conn[1].StartRecv(dst, 0, c.buffer)
					require.NoError(t, err)
					s, err := p.conn[0].StartSend(src, 0, c.length, reliability.SendOptions{Imm: 7, HasImm: true})
					require.NoError(t, err)
					for range steps {
						p.step(p.net.Now().Add(units.Second))
					}
					if finished(r) && finished(s) {
						whole++
					}
					r.Cancel(cause)
					p.until(5*units.Second, func() bool { return finished(r) && finished(s) })
					if s.Err() != nil {
						require.ErrorIs(t, r.Err(), cause, what)
						require.ErrorIs(t, s.Err(), sdr.ErrCompleted, what)
						continue
					}
					require.NoError(t, r.Err(), what)
					require.Equal(t, reliability.RecvResult{Length: c.length, Imm: 7, HasImm: true}, r.Result(), what)
					require.Equal(t, src.Bytes()[:c.length], dst.Bytes()[:c.length], what)
					clear(dst.Bytes())
				}
				// One that nobody sends ends as soon.
				r, err := p.conn[1].StartRecv(dst, 0, c.buffer)
				require.NoError(t, err)
				r.Cancel(cause)
				p.until(5*units.Second, func() bool { return finished(r) })
				require.ErrorIs(t, r.Err(), cause)
			}
		})
	}
}
