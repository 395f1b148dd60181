// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

var anyOrderSeed = flag.Uint64("anyorder.seed", 0, "the one `seed` of TestAnyOrder")

// A oneEnd is one end of a transfer, as TestAnyOrder started it.
type oneEnd struct {
	t        *reliability.Transfer
	mr       *sdr.MR
	n        units.Bytes
	canceled bool
}

// TestAnyOrder makes the calls of a Conn in any order, before and after it is connected and closed, and checks what each transfer promises.
// A run that fails is repeated with -anyorder.seed and the number in its name.
func TestAnyOrder(t *testing.T) {
	seeds := []uint64{*anyOrderSeed}
	if *anyOrderSeed == 0 {
		first := uint64(time.Now().UnixNano())
		seeds = []uint64{first, first + 1, first + 2}
	}
	for _, seed := range seeds {
		for name, scheme := range allSchemes(t) {
			if name == "none" { // which promises less
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				p := newPair(t, setup{
					net: sim.Config{Rate: units.Gbit, Seed: seed, Link: sim.Link{
						Delay: ms, Loss: sim.Loss{Drop: 0.02 * r.Float64()}, Reorder: 0.1, ReorderDelay: ms, Duplicate: 0.01,
					}},
					qp: smallQP, conn: reliability.Config{ParityPool: units.MiB}, scheme: scheme,
				})
				for i := range p.conn { // a pair that isn't connected
					require.NoError(t, p.conn[i].Close())
					var err error
					p.conn[i], err = reliability.NewConn(p.ctx[i], smallQP, reliability.Config{Scheme: scheme(), ParityPool: units.MiB})
					require.NoError(t, err)
				}
				anyOrder(t, r, p)
			})
		}
	}
}

func anyOrder(t *testing.T, r *rand.Rand, p *pair) {
	enough := errors.New("enough")
	lengths := []units.Bytes{0, 1, 1000, 5000, 60_000, 200_000}
	var sends, recvs [2][]*oneEnd // by the direction, which is the end that sends
	connected := false
	for range 40 + r.IntN(60) {
		d := r.IntN(2)
		n := lengths[r.IntN(len(lengths))]
		switch r.IntN(8) {
		case 0, 1:
			h := &oneEnd{mr: p.mr(d, n, 1+r.Uint64N(255)), n: n}
			var err error
			h.t, err = p.conn[d].StartSend(h.mr, 0, n, reliability.SendOptions{Imm: uint32(n), HasImm: true})
			require.NoError(t, err)
			sends[d] = append(sends[d], h)
		case 2, 3:
			h := &oneEnd{mr: p.mr(1-d, n, 0), n: n}
			var err error
			h.t, err = p.conn[1-d].StartRecv(h.mr, 0, n)
			require.NoError(t, err)
			recvs[d] = append(recvs[d], h)
		case 4:
			if hs := [...][]*oneEnd{sends[d], recvs[d]}[r.IntN(2)]; len(hs) > 0 {
				h := hs[max(0, len(hs)-1-r.IntN(6))]
				h.canceled = h.canceled || !finished(h.t)
				h.t.Cancel(enough)
				if !connected {
					require.True(t, finished(h.t))
				}
			}
		case 5:
			if connected {
				p.run(units.Duration(r.Int64N(int64(20 * ms))))
			} else if r.IntN(4) == 0 {
				p.connect()
				connected = true
			}
		default:
			if connected {
				p.run(units.Duration(r.Int64N(int64(ms))))
			}
		}
	}
	if !connected {
		p.connect()
	}
	var all []*oneEnd
	for d := range 2 {
		for _, hs := range [...][]*oneEnd{sends[d], recvs[d]} { // those that nobody meets
			for _, h := range hs[min(len(hs), len(sends[d]), len(recvs[d])):] {
				h.canceled = h.canceled || !finished(h.t)
				h.t.Cancel(enough)
			}
			all = append(all, hs...)
		}
	}
	closed := r.IntN(4) == 0
	if closed {
		p.run(units.Duration(r.Int64N(int64(20 * ms))))
		for i := range p.conn {
			require.NoError(t, p.conn[i].Close())
		}
	}
	p.until(60*units.Second, func() bool {
		for _, h := range all {
			if !finished(h.t) {
				return false
			}
		}
		return closed || p.conn[0].Idle() && p.conn[1].Idle()
	})
	for d := range 2 {
		for k := range min(len(sends[d]), len(recvs[d])) {
			s, v := sends[d][k], recvs[d][k]
			what := fmt.Sprintf("transfer %d of end %d: %d bytes into %d: %v, %v", k, d, s.n, v.n, s.t.Err(), v.t.Err())
			switch {
			case closed && (s.t.Err() != nil || v.t.Err() != nil):
			case s.t.Err() == nil || v.t.Err() == nil:
				require.NoError(t, v.t.Err(), what)
				require.True(t, s.t.Err() == nil || s.canceled, what)
				require.Equal(t, reliability.RecvResult{Length: s.n, Imm: uint32(s.n), HasImm: true}, v.t.Result(), what)
				require.Equal(t, s.mr.Bytes()[:s.n], v.mr.Bytes()[:s.n], what)
				placed, length := s.t.Progress()
				require.True(t, s.t.Err() != nil || placed == length, what)
			case !s.canceled && !v.canceled:
				require.Greater(t, s.n, v.n, what)
				require.ErrorIs(t, s.t.Err(), sdr.ErrTooLong, what)
				require.ErrorIs(t, v.t.Err(), sdr.ErrTooLong, what)
			case !s.canceled && s.n <= v.n:
				require.ErrorIs(t, s.t.Err(), sdr.ErrCompleted, what)
			case !v.canceled && s.n <= v.n:
				require.ErrorIs(t, v.t.Err(), sdr.ErrAborted, what)
			}
		}
	}
	for _, h := range all {
		require.NoError(t, h.mr.Close())
	}
	for i := range p.conn {
		s := p.conn[i].Stats()
		require.Zero(t, s.Sends+s.Recvs)
		require.Zero(t, s.Violations)
		require.Zero(t, s.QP.Control.Violations)
		require.Zero(t, p.conn[i].Uncollected())
		h := p.conn[i].Held()
		require.Equal(t, h.SlotsSend+h.SlotsRecv, h.FreeSend+h.FreeRecv)
		if !closed {
			require.Zero(t, h.SendRefs+h.RecvRefs+h.Waiting)
		}
	}
}
