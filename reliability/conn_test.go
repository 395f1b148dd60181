// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

var smallQP = sdr.QPConfig{MTU: 1024, Chunk: 4096, Channels: 2}

func lossy(p float64) sim.Config {
	return sim.Config{Rate: units.Gbit, Seed: 7, Link: sim.Link{
		Delay: 5 * ms, Loss: sim.Loss{Drop: p}, Reorder: 0.1, ReorderDelay: ms, Duplicate: 0.01,
	}}
}

// move moves n bytes from side 0 into a buffer at side 1 within so long, and returns the memory of both and the receive.
func (p *pair) move(n, buffer units.Bytes, within units.Duration) (src, dst *sdr.MR, r *reliability.Transfer) {
	p.t.Helper()
	src, dst = p.mr(0, n, 3), p.mr(1, buffer, 0)
	s, r := p.begin(src, n, dst, buffer)
	p.until(within, func() bool { return finished(r) && finished(s) })
	require.NoError(p.t, s.Err())
	require.NoError(p.t, r.Err())
	return src, dst, r
}

// begin begins to move n bytes of src at side 0 into as many of dst at side 1 as the buffer has.
func (p *pair) begin(src *sdr.MR, n units.Bytes, dst *sdr.MR, buffer units.Bytes) (s, r *reliability.Transfer) {
	p.t.Helper()
	r, err := p.conn[1].StartRecv(dst, 0, buffer)
	require.NoError(p.t, err)
	s, err = p.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
	require.NoError(p.t, err)
	return s, r
}

// one moves n bytes from side 0 to side 1 and checks them.
func (p *pair) one(n, buffer units.Bytes) {
	p.t.Helper()
	src, dst, r := p.move(n, buffer, 300*units.Second)
	require.Equal(p.t, n, r.Length())
	require.Equal(p.t, src.Bytes()[:n], dst.Bytes()[:n])
	require.Equal(p.t, make([]byte, buffer-n), dst.Bytes()[n:buffer], "bytes beyond the transfer")
	require.NoError(p.t, dst.Close())
	require.NoError(p.t, src.Close())
}

func TestTransfer(t *testing.T) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		for _, drop := range []float64{0, 1e-3, 0.05} {
			p := newPair(t, setup{net: lossy(drop), qp: smallQP, conn: reliability.Config{Rate: 900 * units.Mbit}, scheme: newSR(t, mode)})
			sizes := []units.Bytes{0, 1, 1023, 1024, 1025, 4096, 100_001, 3 * units.MiB}
			if race.Enabled {
				sizes = sizes[:7]
			}
			for _, n := range sizes {
				p.one(n, n)
				p.one(n, n+5000)
			}
		}
	}
}

// TestElapsed: what a transfer took ends with it, not when somebody comes for it.
func TestElapsed(t *testing.T) {
	p := newPair(t, setup{net: sim.Config{Seed: 1, Link: sim.Link{Delay: 10 * ms}}, scheme: newSR(t, sr.RTO)})
	r, err := p.conn[1].StartRecv(p.mr(1, 4096, 0), 0, 4096)
	require.NoError(t, err)
	p.run(50 * ms)
	s, err := p.conn[0].StartSend(p.mr(0, 4096, 1), 0, 4096, reliability.SendOptions{})
	require.NoError(t, err)
	p.run(19 * ms)
	require.Zero(t, s.Elapsed())
	p.run(100 * ms)
	require.InDelta(t, 20*ms, s.Elapsed(), float64(units.Millisecond)/10)
	require.InDelta(t, 60*ms, r.Elapsed(), float64(units.Millisecond)/10, "from the post of the receive on")

	r, err = p.conn[1].StartRecv(p.mr(1, 4096, 0), 0, 4096)
	require.NoError(t, err)
	p.run(50 * ms)
	require.NoError(t, p.conn[1].Close())
	p.until(units.Second, func() bool { return finished(r) })
	require.GreaterOrEqual(t, r.Elapsed(), 50*ms, "of one that failed, too")
}

func TestTransferSpansSlots(t *testing.T) {
	qp := smallQP
	qp.MaxMessage = 64 * units.KiB
	qp.Split = sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}
	p := newPair(t, setup{net: lossy(0.01), qp: qp, conn: reliability.Config{Rate: 900 * units.Mbit, Window: 6}, scheme: newSR(t, sr.NACK)})
	if !race.Enabled {
		p.one(10*units.MiB+77, 11*units.MiB)
	}
	p.one(units.MiB+77, 2*units.MiB)
	p.one(1, 3*units.MiB)
	p.one(200_000, 200_000)
}

// TestNone sends everything once: the transfer ends well, and says how much is
// missing.
func TestNone(t *testing.T) {
	for _, drop := range []float64{0, 0.02} {
		qp := smallQP
		qp.MaxMessage = 64 * units.KiB
		p := newPair(t, setup{
			net: sim.Config{Rate: units.Gbit, Seed: 7, Link: sim.Link{Delay: 5 * ms, Loss: sim.Loss{Drop: drop}}},
			qp:  qp, conn: reliability.Config{Rate: 900 * units.Mbit, Window: 8}, scheme: none.New,
		})
		const n = 2*units.MiB + 100
		src, dst, r := p.move(n, n, 10*units.Second)
		wrong := 0
		for i := 0; i < int(n); i += 1024 {
			end := min(i+1024, int(n))
			if !bytes.Equal(src.Bytes()[i:end], dst.Bytes()[i:end]) {
				wrong++
			}
		}
		require.Equal(t, wrong, r.Result().Missing)
		require.Equal(t, drop > 0, wrong > 0)
	}
}

// TestNoneWithTheLeastWindow: a message isn't completed by its own packets, and what is lost stops no transfer.
func TestNoneWithTheLeastWindow(t *testing.T) {
	for _, drop := range []float64{0, 0.02} {
		qp := smallQP
		qp.MaxMessage = 64 * units.KiB
		p := newPair(t, setup{
			net: sim.Config{Rate: units.Gbit, Seed: 7, Link: sim.Link{Delay: ms, Loss: sim.Loss{Drop: drop}}},
			qp:  qp, conn: reliability.Config{Rate: 900 * units.Mbit, Window: 1}, scheme: none.New,
		})
		const n = 500 * units.KiB
		_, _, r := p.move(n, n, 10*units.Second)
		require.Equal(t, drop > 0, r.Result().Missing > 0)
		require.Less(t, r.Result().Missing, 30, "of 500")
	}
}

// TestProgressKnowsTheLength: a send knows it from the beginning, a receive, whose buffer may be longer, when it has been told.
func TestProgressKnowsTheLength(t *testing.T) {
	p := newPair(t, setup{net: lossy(0), qp: smallQP, scheme: newSR(t, sr.RTO)})
	const n, buffer = 3000, 5000
	r, err := p.conn[1].StartRecv(p.mr(1, buffer, 0), 0, buffer)
	require.NoError(t, err)
	p.run(50 * ms)
	placed, length := r.Progress()
	require.Zero(t, placed)
	require.Zero(t, length)
	s, err := p.conn[0].StartSend(p.mr(0, n, 1), 0, n, reliability.SendOptions{})
	require.NoError(t, err)
	_, length = s.Progress()
	require.Equal(t, units.Bytes(n), length)
	p.until(units.Second, func() bool { return finished(r) && finished(s) })
	for _, x := range []*reliability.Transfer{r, s} {
		placed, length = x.Progress()
		require.Equal(t, units.Bytes(n), length)
		require.Equal(t, units.Bytes(n), placed)
	}
}

// TestTooLong: both ends say so, whichever datagrams get lost: buffers that the receiver posts behind the first one come when the Send has ended.
func TestTooLong(t *testing.T) {
	for seed := range uint64(5) {
		net := lossy(0.3)
		net.Seed, net.MaxDatagram = seed, 256 // each holds a few of them
		p := newPair(t, setup{net: net, qp: smallQP, conn: reliability.Config{MessageSize: units.KiB}, scheme: newAdaptive(t)})
		src, dst := p.mr(0, 50_000, 1), p.mr(1, 50_000, 0)
		r, err := p.conn[1].StartRecv(dst, 0, 40_000)
		require.NoError(t, err)
		s, err := p.conn[0].StartSend(src, 0, 50_000, reliability.SendOptions{})
		require.NoError(t, err)
		p.until(10*units.Second, func() bool { return finished(r) && finished(s) })
		require.ErrorIs(t, s.Err(), sdr.ErrTooLong)
		require.ErrorContains(t, s.Err(), "50000")
		require.ErrorContains(t, s.Err(), "40000")
		require.ErrorIs(t, r.Err(), sdr.ErrAborted)
		require.ErrorIs(t, r.Err(), sdr.ErrTooLong, "seed %d", seed)
		require.ErrorContains(t, r.Err(), "40000")
		p.one(3000, 3000) // the connection goes on
	}
}

func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	for _, who := range []string{"sender", "receiver"} {
		p := newPair(t, setup{net: lossy(0.01), qp: smallQP, conn: reliability.Config{Rate: 100 * units.Mbit}, scheme: newSR(t, sr.RTO)})
		src, dst := p.mr(0, units.MiB, 1), p.mr(1, units.MiB, 0)
		r, err := p.conn[1].StartRecv(dst, 0, units.MiB)
		require.NoError(t, err)
		s, err := p.conn[0].StartSend(src, 0, units.MiB, reliability.SendOptions{})
		require.NoError(t, err)
		p.run(40 * ms)
		if who == "sender" {
			s.Cancel(cause)
		} else {
			r.Cancel(cause)
		}
		p.until(units.Second, func() bool { return finished(r) && finished(s) })
		if who == "sender" {
			require.ErrorIs(t, s.Err(), cause)
			require.ErrorIs(t, r.Err(), sdr.ErrAborted)
		} else {
			require.ErrorIs(t, r.Err(), cause)
			require.ErrorIs(t, s.Err(), sdr.ErrCompleted)
		}
		require.NoError(t, dst.Close(), "the buffer is the user's")
		require.NoError(t, src.Close())
		p.one(10_000, 10_000)
	}
}

// TestCancelEarly: one side gives its half up before the other has begun its own, which must end, too. At once means before a worker
// has seen that it began.
func TestCancelEarly(t *testing.T) {
	cause := errors.New("enough")
	for _, c := range []struct {
		who  string
		when units.Duration
		n    units.Bytes
	}{
		{"sender", 40 * ms, 5000}, {"receiver", 40 * ms, 5000}, {"sender", 0, 5000}, {"receiver", 0, 5000},
		{"sender", 40 * ms, 0}, {"receiver", 40 * ms, 0}, {"sender", 0, 0}, {"receiver", 0, 0},
	} {
		who := c.who
		t.Run(fmt.Sprintf("%s after %v, %d bytes", who, c.when, c.n), func(t *testing.T) {
			p := newPair(t, setup{net: lossy(0.01), qp: smallQP, scheme: newSR(t, sr.RTO)})
			src, dst := p.mr(0, c.n, 1), p.mr(1, c.n, 0)
			send := func() *reliability.Transfer {
				s, err := p.conn[0].StartSend(src, 0, c.n, reliability.SendOptions{})
				require.NoError(t, err)
				return s
			}
			recv := func() *reliability.Transfer {
				r, err := p.conn[1].StartRecv(dst, 0, c.n)
				require.NoError(t, err)
				return r
			}
			first, second, want := send, recv, sdr.ErrAborted
			if who == "receiver" {
				first, second, want = recv, send, sdr.ErrCompleted
			}
			for range 3 {
				early := first()
				if c.when > 0 {
					p.run(c.when)
				}
				early.Cancel(cause)
				p.until(units.Second, func() bool { return finished(early) })
				require.ErrorIs(t, early.Err(), cause)
			}
			for range 3 {
				late := second()
				p.until(units.Second, func() bool { return finished(late) })
				require.ErrorIs(t, late.Err(), want)
			}
			require.NoError(t, dst.Close(), "the buffer is the user's")
			require.NoError(t, src.Close())
			p.one(4000, 4000)
		})
	}
}

func start(t *testing.T, call func(*sdr.MR, units.Bytes, units.Bytes) (*reliability.Transfer, error), mr *sdr.MR) *reliability.Transfer {
	t.Helper()
	transfer, err := call(mr, 0, mr.Len())
	require.NoError(t, err)
	return transfer
}

func TestManyTransfersBidirectional(t *testing.T) {
	p := newPair(t, setup{net: lossy(0.01), qp: smallQP, conn: reliability.Config{Rate: 450 * units.Mbit}, scheme: newSR(t, sr.NACK)})
	n, size := 64, units.Bytes(50_000)
	if race.Enabled {
		n = 16
	}
	var all []*reliability.Transfer
	for e := range 2 {
		for range n {
			r, err := p.conn[1-e].StartRecv(p.mr(1-e, size, 0), 0, size)
			require.NoError(t, err)
			s, err := p.conn[e].StartSend(p.mr(e, size, 5), 0, size, reliability.SendOptions{})
			require.NoError(t, err)
			all = append(all, r, s)
		}
	}
	p.until(60*units.Second, func() bool {
		for _, x := range all {
			if !finished(x) {
				return false
			}
		}
		return true
	})
	for _, x := range all {
		require.NoError(t, x.Err())
	}
}

func TestPeerSilence(t *testing.T) {
	qp := smallQP
	qp.Silence = 500 * ms
	p := newPair(t, setup{net: lossy(0), qp: qp, scheme: newSR(t, sr.RTO)})
	src, dst := p.mr(0, units.MiB, 1), p.mr(1, units.MiB, 0)
	r, err := p.conn[1].StartRecv(dst, 0, units.MiB)
	require.NoError(t, err)
	s, err := p.conn[0].StartSend(src, 0, units.MiB, reliability.SendOptions{})
	require.NoError(t, err)
	p.run(5 * ms)
	p.net.SetFilter(func(sim.PacketInfo) sim.Verdict { return sim.Drop })
	before := p.net.Now()
	p.until(2*units.Second, func() bool { return finished(r) && finished(s) })
	require.Less(t, p.net.Now().Sub(before), 600*ms)
	require.ErrorIs(t, s.Err(), sdr.ErrPeerDead)
	require.ErrorIs(t, r.Err(), sdr.ErrPeerDead)
	require.NoError(t, dst.Close())
	require.NoError(t, src.Close())
}
