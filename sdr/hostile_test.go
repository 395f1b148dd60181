// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// A program is bytes that a test takes its decisions from.
type program []byte

func (p *program) byte() byte {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return b
}

// number is a small one, one near a given one, a power of two, or one of the largest.
func (p *program) number(near uint64) uint64 {
	b := p.byte()
	v := uint64(b & 63)
	switch b >> 6 {
	case 0:
		return v
	case 1:
		return near + v - 8
	case 2:
		return 1 << v
	}
	return math.MaxUint64 - v
}

// frame is any frame, about a message near a given one.
func (p *program) frame(near uint64) wire.Frame {
	f := wire.Frame{Type: wire.Type(p.byte() % 12), ID: p.number(near)}
	switch f.Type {
	case wire.TypeCTS:
		f.Transfer, f.Role, f.Index = p.number(near), p.byte(), uint32(p.number(0))
		f.Length, f.Total = p.number(2000), p.number(2000)
		f.RKey, f.VA = uint32(p.number(0)), p.number(0)
	case wire.TypeStart, wire.TypeEnd, wire.TypeWindow:
		f.Length, f.HasImm, f.Imm = p.number(2000), p.byte()&1 == 1, 0xbad
		f.Bytes = make([]byte, p.byte()%80)
	case wire.TypeScheme, wire.TypeReliable:
		f.Number, f.Bytes = p.number(0), make([]byte, 4*int(p.byte()))
	case wire.TypeAbort, wire.TypeCompleted:
		f.Code = p.byte() % 4
	case wire.TypeAck:
		f.Code, f.Count = p.byte()%8, p.number(1)
	}
	return f
}

// A hostile is a pair in which side 0 sends to side 1 while both receive forged frames.
type hostile struct {
	*pair
	src, dst *sdr.MR
	stream   *sdr.SendStream  // the latest
	recvs    []sdr.RecvHandle // open, by position in dst
	at       []units.Bytes
	posted   int
	number   uint32
}

const hostileBuffer = 3 * 4096

func newHostile(t testing.TB) *hostile {
	sc := link()
	sc.Link.Delay = 100 * units.Microsecond
	h := &hostile{pair: newPair(t, sc, small)}
	h.src, h.dst = h.mr(0, hostileBuffer, true), h.mr(1, 32*hostileBuffer, false)
	return h
}

// forge gives a side frames as if its peer had sent them.
func (h *hostile) forge(side int, frames []byte) {
	h.number += 1000
	h.qp[side].ReceiveFrames(h.number, frames)
}

// forgeFrames gives a side frames that a program makes up, as if its peer had sent them.
func (h *hostile) forgeFrames(op byte, in *program) {
	side := int(op >> 3 & 1)
	nextRecv, granted := h.qp[side].Frontier()
	var b []byte
	for range 1 + op>>6 {
		f := in.frame(nextRecv)
		if f.Type == wire.TypeCTS || f.Type == wire.TypeCompleted {
			f = in.frame(granted)
		}
		b = f.Append(b)
	}
	if op>>4&3 == 3 {
		b = append(b, (*in)[:min(len(*in), int(op>>6))]...) // garbage behind it
	}
	h.forge(side, b)
}

func (h *hostile) postRecv() {
	at := units.Bytes(h.posted%32) * hostileBuffer
	r, err := h.qp[1].PostRecv(h.dst, at, hostileBuffer)
	if err == nil {
		clear(h.dst.Bytes()[at : at+hostileBuffer])
		h.recvs, h.at = append(h.recvs, r), append(h.at, at)
		h.posted++
	}
}

func (h *hostile) complete(i int) {
	if len(h.recvs) > 0 {
		i %= len(h.recvs)
		require.NoError(h.t, h.recvs[i].Complete())
		h.recvs, h.at = append(h.recvs[:i], h.recvs[i+1:]...), append(h.at[:i], h.at[i+1:]...)
	}
}

// rest lets d pass; time must not stand still.
func (h *hostile) rest(d units.Duration) {
	limit := h.net.Now().Add(d)
	for rounds := 0; h.net.Now() < limit; rounds++ {
		h.step(limit)
		require.Less(h.t, rounds, 100_000, "no time passes")
	}
}

// check requires that what is remembered is bounded, and that a set bit is true.
func (h *hostile) check() {
	for _, q := range h.qp {
		h.checkHeld(q)
		n := q.Held()
		require.LessOrEqual(h.t, n.Sends, small.Split.Slots()+1)
		require.Zero(h.t, n.Events+n.Arena, "nobody takes them")
		if err := q.Err(); err != nil {
			var op *sdr.OpError
			require.True(h.t, errors.As(err, &op), "%v", err)
		}
	}
	for i, r := range h.recvs {
		checkBits(h.t, r, h.src.Bytes(), h.dst.Bytes()[h.at[i]:])
	}
}

// checkHeld requires that what a queue pair remembers of its peer's doing is bounded.
func (h *hostile) checkHeld(q *sdr.QP) {
	n, slots := q.Held(), small.Split.Slots()
	require.LessOrEqual(h.t, n.Grants, 2*slots)
	require.LessOrEqual(h.t, n.Beyond, 2*slots)
	require.LessOrEqual(h.t, n.Recvs, slots)
	require.LessOrEqual(h.t, n.CTS, 2*slots)
	require.LessOrEqual(h.t, n.Completed, 3*slots)
	require.LessOrEqual(h.t, n.Unacked, 4*slots+3*slots)
}

// checkBits requires of each chunk of a message whose bit is set that its bytes, those of sent, are in received.
func checkBits(t testing.TB, r sdr.RecvHandle, sent, received []byte) {
	m := r.Bitmap()
	for c := range m.Len() {
		if m.Has(c) {
			off, n := m.Range(c)
			require.True(t, bytes.Equal(sent[off:off+n], received[off:off+n]), "message %d, chunk %d", r.Seq(), c)
		}
	}
}

// send sends a message at once, or begins a stream, sends a part of it, or ends it.
func (h *hostile) send(op byte, p *program) {
	n, o := units.Bytes(p.byte())*48, sdr.SendOptions{Imm: 7, HasImm: op&8 != 0}
	switch how := op >> 4 & 3; {
	case how == 0:
		_, _ = h.qp[0].PostSend(h.src, 0, n, o)
	case how == 1:
		if s, err := h.qp[0].StartStream(h.src, 0, n, o); err == nil {
			h.stream = &s
		}
	case h.stream == nil:
	case how == 2:
		_ = h.stream.Send(units.Bytes(p.byte()%16)*small.MTU, n)
	default:
		_ = h.stream.End()
	}
}

// play does what the program says.
func (h *hostile) play(p program) {
	for len(p) > 0 {
		switch op := p.byte(); op % 8 {
		case 0, 1, 2:
			h.forgeFrames(op, &p)
		case 3, 4:
			h.postRecv()
		case 5:
			h.send(op, &p)
		case 6:
			h.complete(int(op >> 3))
		case 7:
			h.rest(units.Duration(op>>3) * 30 * units.Microsecond)
		}
		h.check()
	}
}

// FuzzControl gives both sides of a connection forged frames in the middle of traffic, with the right
// connection id. Nothing may panic or grow, and a bit that is set must be true; messages that forged frames
// name may stay incomplete. Closing brings all fences down in any case.
func FuzzControl(f *testing.F) {
	for seed := range uint64(8) {
		b := make([]byte, 400)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
		f.Add(b)
	}
	// Grants one after the other, never acknowledging what follows.
	f.Add(bytes.Repeat([]byte{8 * 0, 1, 0x48, 1, 0x48, 0, 1, 0, 0x40, 0x40, 0, 0, 5, 20, 0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newHostile(t)
		h.play(b[:min(len(b), 2000)])
		h.rest(20 * ms)
		h.check()
	})
}

// FuzzInfo changes a peer's info: what is taken connects, or fails in time.
func FuzzInfo(f *testing.F) {
	for _, at := range []uint16{4, 6, 8, 9, 10, 11, 15, 23, 31, 32, 39, 43, 70, 79, 83, 87, 91, 95, 99, 130} {
		f.Add(at, []byte{1}, uint16(0))
		f.Add(at, []byte{0xff, 0xff}, at)
	}
	f.Fuzz(func(t *testing.T, at uint16, change []byte, cut uint16) {
		p := newUnconnected(t, link(), small)
		info := bytes.Clone(p.qp[1].Info())
		for i, c := range change[:min(len(change), len(info))] {
			info[(int(at)+i)%len(info)] ^= c
		}
		require.NoError(t, p.qp[1].StartConnect(p.qp[0].Info()))
		if p.qp[0].StartConnect(info[:len(info)-int(cut)%len(info)]) != nil {
			return
		}
		p.until(11*units.Second, func() bool {
			ready, err := p.qp[0].Connected()
			return ready || err != nil
		})
	})
}

// TestViolationsChangeNothing: frames that no honest peer sends are counted and have no other effect.
func TestViolationsChangeNothing(t *testing.T) {
	const far = 1 << 40
	h := newHostile(t)
	var said [2]uint64
	violations := func() {
		for side, q := range h.qp {
			nextRecv, granted := q.Frontier()
			for _, f := range []wire.Frame{
				{Type: wire.TypeCTS, ID: granted + 32, Length: 4096},
				{Type: wire.TypeCTS, ID: far, Length: 4096},
				{Type: wire.TypeCTS, ID: granted + 3, Length: uint64(2 * units.MiB)},
				{Type: wire.TypeEnd, ID: nextRecv, Length: 3},
				{Type: wire.TypeStart, ID: nextRecv, Length: 3},
				{Type: wire.TypeAbort, ID: nextRecv},
				{Type: wire.TypeAbort, ID: math.MaxUint64},
				{Type: wire.TypeCompleted, ID: granted + 32, Code: uint8(sdr.Whole)},
				{Type: wire.TypeCompleted, ID: 0, Code: 77},
				{Type: wire.TypeAck, ID: 0, Code: 99, Count: math.MaxUint64},
			} {
				h.forge(side, f.Append(nil))
				said[side]++
				require.Equal(t, said[side], q.Stats().Control.Violations, "%v %d", f.Type, f.ID)
			}
		}
	}
	for n := range 100 {
		h.postRecv()
		for i, length := range []uint64{hostileBuffer + 1, math.MaxInt64} {
			f := wire.Frame{Type: []wire.Type{wire.TypeStart, wire.TypeEnd}[i], ID: h.recvs[0].Seq(), Length: length}
			h.forge(1, f.Append(nil))
			said[1]++
			_, known := h.recvs[0].Length()
			require.False(t, known)
		}
		s, err := h.qp[0].PostSend(h.src, 0, hostileBuffer-units.Bytes(n), sdr.SendOptions{})
		require.NoError(t, err)
		violations()
		h.until(units.Second, func() bool {
			all, err := h.recvs[0].Bitmap().AllSet(), h.recvs[0].Bitmap().Err()
			require.NoError(t, err)
			return all
		})
		violations()
		h.check()
		r := h.recvs[0]
		h.complete(0)
		h.until(units.Second, r.Done)
		h.until(units.Second, func() bool { done, err := s.Poll(); require.NoError(t, err); return done })
	}
	require.NoError(t, h.qp[0].Err())
	require.NoError(t, h.qp[1].Err())
}

// TestSaidOnce: a clear-to-send that comes again is no other grant, though those before it are missing, and a message has the length that was
// announced first.
func TestSaidOnce(t *testing.T) {
	h := newHostile(t)
	cts := wire.Frame{Type: wire.TypeCTS, ID: 2, Length: hostileBuffer}
	h.forge(0, cts.Append(nil))
	require.Equal(t, 1, h.qp[0].Held().Grants)
	for range 2 {
		_, err := h.qp[0].PostSend(h.src, 0, hostileBuffer, sdr.SendOptions{})
		require.NoError(t, err)
	}
	h.until(units.Second, func() bool { return h.qp[0].Held().Sends == 1 })
	h.forge(0, cts.Append(nil))
	require.Zero(t, h.qp[0].Held().Grants)

	h.postRecv()
	for _, length := range []uint64{1000, hostileBuffer, 10} {
		end := wire.Frame{Type: wire.TypeEnd, ID: h.recvs[0].Seq(), Length: length}
		h.forge(1, end.Append(nil))
		n, known := h.recvs[0].Length()
		require.True(t, known)
		require.EqualValues(t, 1000, n)
	}
}

// TestOutcomesAreBounded: a peer that acknowledges each clear-to-send, and no outcome, can't make us remember more and more of them.
func TestOutcomesAreBounded(t *testing.T) {
	h := newHostile(t)
	h.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Direction == sim.AtoB {
			return sim.Drop
		}
		return sim.Deliver
	})
	acks := wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), Count: 1 << 40}
	for range 6 * small.Split.Slots() {
		h.postRecv()
		h.forge(1, acks.Append(nil))
		h.complete(0)
		h.rest(100 * units.Microsecond)
		h.check()
	}
	require.GreaterOrEqual(t, h.qp[1].Held().Completed, 2*small.Split.Slots())
}

// TestConnectsNobodyElse: an end that is told that its peer is at an address which isn't the peer's, and hears from it by control
// datagrams alone, sends little there and doesn't take itself for connected, whatever they say: only a packet from that address can
// complete the connection check.
func TestConnectsNobodyElse(t *testing.T) {
	for name, lies := range map[string][]wire.Frame{
		"grants": nil,
		"says all": {
			{Type: wire.TypeEnd, ID: 0, Length: 0}, {Type: wire.TypeStart, ID: 0, Length: 0},
			{Type: wire.TypeCompleted, ID: 0, Code: uint8(sdr.Whole)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hostile{pair: newUnconnected(t, link(), small)}
			packets := 0
			h.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
				if i.Length < 1024 {
					return sim.Deliver
				}
				packets++
				return sim.Drop
			})
			require.NoError(t, h.qp[0].StartConnect(h.qp[1].Info()))
			grant := wire.Frame{Type: wire.TypeCTS, ID: 0, Length: 1024}
			h.forge(0, grant.Append(nil))
			h.rest(15 * ms)
			for _, f := range lies {
				h.forge(0, f.Append(nil))
				h.rest(ms)
			}
			h.until(16*units.Second, func() bool {
				ready, err := h.qp[0].Connected()
				require.False(t, ready)
				return err != nil
			})
			require.ErrorIs(t, h.qp[0].Err(), sdr.ErrPeerDead)
			require.ErrorContains(t, h.qp[0].Err(), "it has answered none of ours within 10 s")
			require.LessOrEqual(t, packets, 24)
			require.LessOrEqual(t, h.qp[0].Stats().Control.DatagramsSent, uint64(400))
			if lies == nil {
				require.GreaterOrEqual(t, packets, 6, "it goes on trying")
			}
		})
	}
}

// TestMalformedIsCounted cuts a datagram at every byte.
func TestMalformedIsCounted(t *testing.T) {
	h := newHostile(t)
	var b []byte
	boundaries := map[int]bool{0: true}
	for _, ty := range []wire.Type{wire.TypeCTS, wire.TypeEnd, wire.TypeScheme, wire.TypeReliable, wire.TypePing} {
		f := wire.Frame{Type: ty, ID: 1 << 30, Bytes: []byte("bytes")}
		b = f.Append(b)
		boundaries[len(b)] = true
	}
	want := uint64(0)
	for n := range len(b) + 1 {
		h.forge(0, b[:n])
		if !boundaries[n] {
			want++
		}
		require.Equal(t, want, h.qp[0].Stats().Control.Malformed, "%d bytes", n)
	}
}

// TestGrantWithoutEnd: a peer that grants and never acknowledges is not granted endless memory; one
// that starts to acknowledge is served again.
func TestGrantWithoutEnd(t *testing.T) {
	h := newHostile(t)
	_, granted := h.qp[0].Frontier()
	for n := range uint64(1000) {
		f := wire.Frame{Type: wire.TypeCTS, ID: granted + n, Length: 4096}
		h.forge(0, f.Append(nil))
	}
	h.check()
	require.Equal(t, 2*small.Split.Slots(), h.qp[0].Held().Grants)
	for range 2 * small.Split.Slots() {
		_, err := h.qp[0].PostSend(h.src, 0, 10, sdr.SendOptions{})
		require.NoError(t, err)
		h.rest(100 * units.Microsecond)
	}
	more := wire.Frame{Type: wire.TypeCTS, ID: granted + 32, Length: 4096}
	h.forge(0, more.Append(nil))
	require.Zero(t, h.qp[0].Held().Grants, "a START and an END of each message wait to be acknowledged")
	require.Equal(t, 4*small.Split.Slots(), h.qp[0].Held().Unacked)
	for _, ty := range []wire.Type{wire.TypeStart, wire.TypeEnd} {
		f := wire.Frame{Type: wire.TypeAck, Code: uint8(ty), Count: 1 << 20}
		h.forge(0, f.Append(nil))
	}
	h.forge(0, more.Append(nil))
	require.Equal(t, 1, h.qp[0].Held().Grants)
}

// TestSchemeWithoutDriver: frames for a QP without a driver are not kept.
func TestSchemeWithoutDriver(t *testing.T) {
	h := newHostile(t)
	f := wire.Frame{Type: wire.TypeScheme, Bytes: make([]byte, 1000)}
	for range 100 {
		h.forge(0, f.Append(nil))
	}
	require.Zero(t, h.qp[0].Held().Arena)
}

// deaf is a driver that counts fences and ignores everything else.
type deaf struct {
	fenced, events, bytes int
	post                  *sdr.MR // memory to be posted
	recv                  sdr.RecvHandle
}

func (d *deaf) Progress(p *sdr.Port) units.Instant {
	if d.post != nil {
		d.recv, _ = p.PostRecv(d.post, 0, d.post.Len(), sdr.RecvOptions{})
		d.post = nil
	}
	for _, e := range p.Events {
		d.events++
		d.bytes += len(e.Bytes)
		if e.Kind == sdr.EventFenced {
			d.fenced++
		}
	}
	return units.Never
}

func (d *deaf) Failed(error) {}

// TestFloodLosesNoFence: frames beyond what a driver's queue holds are dropped, an EventFenced
// is not.
func TestFloodLosesNoFence(t *testing.T) {
	d := new(deaf)
	cfg := small
	cfg.Driver = d
	h := &hostile{pair: newPair(t, link(), cfg)}
	d.post = h.mr(0, 4096, false)
	h.qp[0].Kick()
	h.rest(ms)
	r := d.recv
	*d = deaf{}
	require.NoError(t, r.Complete())
	small, large := wire.Frame{Type: wire.TypeScheme}, wire.Frame{Type: wire.TypeScheme, Bytes: make([]byte, 3000)}
	for range sdr.MaxEvents / 2 {
		h.forge(0, large.Append(nil))
	}
	require.LessOrEqual(t, h.qp[0].Held().Arena, sdr.MaxArena)
	for range sdr.MaxEvents {
		h.forge(0, small.Append(nil))
	}
	require.Equal(t, sdr.MaxEvents, h.qp[0].Held().Events)
	h.rest(ms)
	require.Equal(t, 1, d.fenced)
	require.Greater(t, d.bytes, sdr.MaxArena/2)
}
