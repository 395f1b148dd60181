// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Types of control frames, as docs/wire.md numbers them.
const (
	frameCTS = iota + 1
	frameStart
	frameEnd
	frameAbort
	frameCompleted
	frameAck
	_
	frameScheme
	_
	_
	frameReliable
)

// A forger sends control datagrams that look like the peer's: it knows the connection id.
type forger struct {
	t      testing.TB
	net    *sim.Network
	qp     backend.QP
	to     backend.AddressHandle
	connID []byte
	number uint32
}

// newForger sends forged frames to the QP whose info this is, from the device of its peer.
func newForger(t testing.TB, net *sim.Network, from *sim.Device, info sdr.Info) *forger {
	const atID, atControl = 16, 64 // docs/wire.md, "Introductions"
	control, err := backend.ParseQPInfo(info[atControl:])
	require.NoError(t, err)
	f := &forger{t: t, net: net, connID: info[atID : atID+8]}
	cq, err := from.NewCQ(backend.CQConfig{Entries: 64, Workers: 1})
	require.NoError(t, err)
	f.qp, err = from.NewQP(backend.QPConfig{Type: backend.UD, SendCQ: cq, RecvCQ: cq, MTU: 1024, SendDepth: 16, RecvDepth: 16})
	require.NoError(t, err)
	f.to, err = from.OpenAddress(control)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.qp.Close()) })
	return f
}

func (f *forger) say(frames []byte) {
	f.number += 1000
	b := append([]byte{1, 0, 0, 0}, f.connID...)
	b = binary.BigEndian.AppendUint32(b, f.number)
	_, err := f.qp.PostDatagrams(f.net.Now(), []backend.Datagram{{To: f.to, Data: append(b, frames...)}})
	require.NoError(f.t, err)
}

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

// number is a small one, a larger one, a power of two, or one of the largest.
func (p *program) number() uint64 {
	b := p.byte()
	v := uint64(b & 63)
	switch b >> 6 {
	case 0:
		return v
	case 1:
		return v * 1024
	case 2:
		return 1 << v
	}
	return math.MaxUint64 - v
}

// frame is any frame; data says whether it can make the peer send or decode wrong bytes.
func (p *program) frame() (b []byte, data bool) {
	kind := p.byte() % 12
	b = binary.AppendUvarint([]byte{kind}, p.number())
	add := func(v uint64) { b = binary.AppendUvarint(b, v) }
	switch kind {
	case frameCTS:
		add(p.number() & 7) // transfer
		b = append(b, p.byte()%4)
		add(p.number() & math.MaxUint32)
		add(p.number() & math.MaxInt64)
		add(p.number() & math.MaxInt64)
		add(0)
		add(0)
	case frameStart:
		add(p.number() & math.MaxInt64)
		b = append(b, 1, 2, 3, 4, 5)
		b = append(b, p.bytes(24)...)
	case frameEnd:
		add(p.number() & math.MaxInt64)
	case frameAbort, frameCompleted:
		b = append(b, p.byte()%4)
	case frameAck:
		b = append(b, p.byte()%8)
		add(p.number())
	case frameScheme:
		b = append(b, p.byte()&1)
		add(p.number())
		b = append(b, p.bytes(100)...)
	case frameReliable:
		add(p.number() & 7)
		b = append(b, p.byte()&1)
		b = append(b, p.bytes(100)...)
	}
	return b, kind == frameCTS || kind == frameStart || kind == frameScheme || kind == frameReliable
}

// bytes are up to most bytes behind their length.
func (p *program) bytes(most int) []byte {
	n := min(int(p.byte())%most, len(*p))
	b := append(binary.AppendUvarint(nil, uint64(n)), (*p)[:n]...)
	*p = (*p)[n:]
	return b
}

// A hostile is a pair with transfers from side 0 to side 1 while both receive forged frames.
type hostile struct {
	*pair
	forgers      [2]*forger
	src, dst     *sdr.MR
	sends, recvs []*reliability.Transfer
	misled       bool
}

const hostileSize = 40_000

func newHostile(t testing.TB, s func() scheme.Scheme) *hostile {
	qp := smallQP
	qp.Split = sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}
	qp.MaxMessage = 8 * units.KiB
	h := &hostile{pair: newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Seed: 3, Link: sim.Link{Delay: 100 * units.Microsecond, Loss: sim.Loss{Drop: 0.02}}},
		qp:  qp, scheme: s,
		conn: reliability.Config{Window: 4, NoProgress: 50 * ms, ParityPool: 64 * units.KiB},
	})}
	devices := []*sim.Device{h.net.A(), h.net.B()}
	for i := range 2 {
		h.forgers[i] = newForger(t, h.net, devices[1-i], h.conn[i].QP().Info())
	}
	h.src, h.dst = h.mr(0, hostileSize, 3), h.mr(1, 8*hostileSize, 0)
	return h
}

func (h *hostile) send(n units.Bytes) {
	if len(h.sends) < 8 {
		if s, err := h.conn[0].StartSend(h.src, 0, min(n, hostileSize), reliability.SendOptions{}); err == nil {
			h.sends = append(h.sends, s)
		}
	}
}

func (h *hostile) recv() {
	if n := len(h.recvs); n < 8 {
		if r, err := h.conn[1].StartRecv(h.dst, units.Bytes(n)*hostileSize, hostileSize); err == nil {
			h.recvs = append(h.recvs, r)
		}
	}
}

// rest lets d pass; time must not stand still.
func (h *hostile) rest(d units.Duration) {
	limit := h.net.Now().Add(d)
	for rounds := 0; h.net.Now() < limit; rounds++ {
		h.step(limit)
		require.Less(h.t, rounds, 200_000, "no time passes")
	}
}

func (h *hostile) check() {
	for _, c := range h.conn {
		n := c.Held()
		require.LessOrEqual(h.t, n.Grants, 32)
		require.LessOrEqual(h.t, n.Waiting, 32)
		require.LessOrEqual(h.t, n.SendRefs, 1000)
		require.LessOrEqual(h.t, n.RecvRefs, 16)
		require.LessOrEqual(h.t, n.ParityMessages, 8*200)
		require.LessOrEqual(h.t, n.FreeSend, n.SlotsSend, "a slot was returned twice")
		require.LessOrEqual(h.t, n.FreeRecv, n.SlotsRecv, "a slot was returned twice")
	}
	if h.misled {
		return
	}
	for i, r := range h.recvs {
		if finished(r) && r.Err() == nil {
			at := units.Bytes(i) * hostileSize
			require.True(h.t, bytes.Equal(h.src.Bytes()[:r.Length()], h.dst.Bytes()[at:at+r.Length()]), "transfer %d", i)
		}
	}
}

func (h *hostile) play(p program) {
	for len(p) > 0 {
		switch op := p.byte(); op % 8 {
		case 0, 1, 2, 3:
			var b []byte
			for range 1 + op>>6 {
				f, data := p.frame()
				b = append(b, f...)
				h.misled = h.misled || data
			}
			h.forgers[op>>3&1].say(b)
		case 4:
			h.send(units.Bytes(op>>3) * 1300)
		case 5:
			h.recv()
		case 6:
			h.rest(units.Duration(op>>3) * 100 * units.Microsecond)
		case 7:
			if n := len(h.sends); op>>3 == 0 && n > 0 {
				h.sends[n-1].Cancel(sdr.ErrClosed)
			} else if n := len(h.recvs); op>>3 == 1 && n > 0 {
				h.recvs[n-1].Cancel(sdr.ErrClosed)
			}
		}
		h.check()
	}
}

// finish closes both sides: every transfer ends then, and its memory is free.
func (h *hostile) finish() {
	h.rest(100 * ms)
	h.check()
	for _, c := range h.conn {
		require.NoError(h.t, c.Close())
	}
	for _, x := range append(h.sends, h.recvs...) {
		require.True(h.t, finished(x))
	}
	require.NoError(h.t, h.src.Close())
	require.NoError(h.t, h.dst.Close())
}

// FuzzConn sends forged frames to both sides of a Conn in the middle of transfers: grants, starts and frames of
// schemes that make no sense, with the right connection id. Nothing may panic or grow, no time may
// stand still, a transfer that ends well has the right bytes unless the forged frame was about them, and
// closing ends everything and frees the memory.
func FuzzConn(f *testing.F) {
	// By number, so that what was found with one stays with it.
	names := [...]string{"sr", "sr-nack", "ec-mds", "adaptive", "ec-xor", "strack", "strack-p", "none"}
	for seed := range uint64(2 * len(names)) {
		b := make([]byte, 300)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
		f.Add(byte(seed), append([]byte{5, 5, 0xfc, 0xfc}, b...))
	}
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		all := withPaths(t)
		all["ec-mds"], all["ec-xor"] = newEC(t, scheme.MDS, 8, 2), newEC(t, scheme.XOR, 8, 2)
		name := names[int(kind)%len(names)]
		h := newHostile(t, all[name])
		h.misled = name == "none" // its transfers end well with units missing
		h.play(b[:min(len(b), 1500)])
		h.finish()
	})
}

// cts is a grant of message seq for a message of transfer 0.
func cts(seq uint64, role sdr.Role, index, length uint64) []byte {
	b := []byte{frameCTS}
	for _, v := range []uint64{seq, 0, uint64(role), index, length, hostileSize, 0, 0} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// TestShortGrant: a buffer shorter than the message that it is for ends the transfer with an error
// that says so, and the sender's memory is free.
func TestShortGrant(t *testing.T) {
	h := newHostile(t, newSR(t, sr.RTO))
	h.send(hostileSize)
	h.forgers[0].say(cts(1, sdr.RoleData, 0, 100))
	h.until(units.Second, func() bool { return finished(h.sends[0]) })
	require.ErrorIs(t, h.sends[0].Err(), sdr.ErrTooLong)
	require.ErrorContains(t, h.sends[0].Err(), "8192 bytes and the peer's buffer 100")
	require.NoError(t, h.src.Close())
}

// TestEndlessParity: however much parity the peer asks for and takes, little is remembered of it.
func TestEndlessParity(t *testing.T) {
	h := newHostile(t, newEC(t, scheme.MDS, 8, 2))
	h.send(hostileSize)
	h.forgers[0].say(cts(1, sdr.RoleData, 0, 8192))
	for i := range uint64(1000) {
		seq := i + 2
		taken := append(binary.AppendUvarint([]byte{frameCompleted}, seq), byte(sdr.Whole))
		taken = binary.AppendUvarint(append(taken, frameAck, 0, frameEnd), 1<<20)
		for _, b := range [][]byte{cts(seq, sdr.RoleParity, i, 8192), taken} {
			for range 3 { // without any of them no later one counts, and it may get lost
				h.forgers[0].say(b)
			}
			h.rest(10 * units.Microsecond)
		}
	}
	n := h.conn[0].Held()
	require.Greater(t, n.ParityMessages, 50)
	require.LessOrEqual(t, n.ParityMessages, 200)
	require.LessOrEqual(t, n.SendRefs, 300)
	require.Greater(t, h.conn[0].Stats().QP.MessagesSent, uint64(900), "the peer was heard")
	h.finish()
}

// An attentive scheme counts the frames that a sending half hears, and passes none on.
type attentive struct {
	scheme.Scheme
	frames int
}

func (a *attentive) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	s, err := a.Scheme.NewSender(t, env)
	return &attentiveSender{s, a}, err
}

type attentiveSender struct {
	scheme.Sender
	of *attentive
}

func (s *attentiveSender) OnControl(units.Instant, []byte) error { s.of.frames++; return nil }

// TestManyFramesAtOnce: however many frames a receiver puts into a datagram, a core looks at no more of them than an honest one may send.
func TestManyFramesAtOnce(t *testing.T) {
	a := &attentive{Scheme: newSR(t, sr.NACK)()}
	h := newHostile(t, func() scheme.Scheme { return a })
	h.send(hostileSize)
	h.forgers[0].say(cts(1, sdr.RoleData, 0, 8192))
	h.rest(ms)
	for range 3 {
		before := a.frames
		var frames []byte
		for range 100 {
			frames = append(frames, frameScheme, 0, 1, 0, 2, 0, 0) // of transfer 0, to the sender: nothing is in place
		}
		h.forgers[0].say(frames)
		h.rest(ms)
		require.Greater(t, a.frames, before)
		require.LessOrEqual(t, a.frames, before+32)
	}
	require.NoError(t, h.sends[0].Err())
	h.finish()
}

// TestUnknownRole: a grant for a role that no scheme of ours has is counted, and the message is ended.
func TestUnknownRole(t *testing.T) {
	h := newHostile(t, newSR(t, sr.RTO))
	h.send(hostileSize)
	h.forgers[0].say(cts(1, 9, 0, 8192))
	h.rest(5 * ms)
	require.Equal(t, uint64(1), h.conn[0].Stats().Violations)
	require.Zero(t, h.conn[0].Held().SendRefs)
}

// reliable is frame number n of the peer that must arrive.
func reliable(n, transfer uint64, toSender byte, bytes ...byte) []byte {
	b := binary.AppendUvarint([]byte{frameReliable}, n)
	b = append(binary.AppendUvarint(b, transfer), toSender)
	return append(binary.AppendUvarint(b, uint64(len(bytes))), bytes...)
}

// TestReliableFrames: one of no transfer, of one that hasn't begun, to a sending half or to a scheme that handles none is
// counted; one that makes no sense is, too, and ends its transfer.
func TestReliableFrames(t *testing.T) {
	for name, s := range map[string]func() scheme.Scheme{"sr": newSR(t, sr.RTO), "adaptive": newAdaptive(t)} {
		h := newHostile(t, s)
		violations := func() uint64 { return h.conn[1].Stats().Violations }
		n := uint64(0)
		say := func(transfer uint64, toSender byte, bytes ...byte) {
			h.forgers[1].say(reliable(n, transfer, toSender, bytes...))
			n++
			h.rest(ms)
		}
		say(0, 0, 1)
		require.Equal(t, uint64(1), violations(), "%s: nothing was granted for it", name)
		h.recv()
		h.rest(5 * ms)
		say(0, 0, 1)
		require.Equal(t, uint64(2), violations(), "%s: it has not begun", name)
		half, err := s().NewSender(scheme.Transfer{Length: 100, UnitBytes: 1024, Units: 1}, &scheme.Env{Channels: 2, MaxFrame: 500})
		require.NoError(t, err)
		params := half.Params()
		h.forgers[1].say(append([]byte{frameStart, 0, 100, 0, 0, 0, 0, 0, byte(len(params))}, params...))
		h.rest(ms)
		say(0, 1, 1)
		require.Equal(t, uint64(3), violations(), "%s: no receiving half sends any", name)
		require.False(t, finished(h.recvs[0]), "%s: %v", name, h.recvs[0].Err())
		say(0, 0, 0xff, 0xff)
		if name == "sr" {
			require.Equal(t, uint64(4), violations())
			require.False(t, finished(h.recvs[0]))
			continue
		}
		h.until(units.Second, func() bool { return finished(h.recvs[0]) })
		require.ErrorContains(t, h.recvs[0].Err(), "malformed")
		require.Equal(t, uint64(4), violations(), "it makes no sense")
		say(0, 0, 0xff)
		require.Equal(t, uint64(4), violations(), "of one that has ended")
	}
}

// TestViolationsOfASender: a frame that no sending half sends, and a transfer longer than the buffer that was granted for it, end the
// receive and are counted.
func TestViolationsOfASender(t *testing.T) {
	start := []byte{frameStart, 0, 100, 0, 0, 0, 0, 0, 2, 1, 0} // sr's parameters
	for name, c := range map[string]struct {
		lies [][]byte
		want string
	}{
		"frame":    {[][]byte{start, {frameScheme, 0, 0, 1, 1, 0xff}}, "sends no frames"},
		"too long": {[][]byte{append(binary.AppendUvarint([]byte{frameStart, 0}, hostileSize+1), start[3:]...)}, "bytes and the buffer"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, newSR(t, sr.RTO))
			h.recv()
			h.rest(5 * ms)
			for _, frame := range c.lies {
				h.forgers[1].say(frame)
				h.rest(ms)
			}
			h.until(units.Second, func() bool { return finished(h.recvs[0]) })
			require.ErrorContains(t, h.recvs[0].Err(), c.want)
			require.Equal(t, uint64(1), h.conn[1].Stats().Violations)
		})
	}
}

// TestStartedOnce: a START that comes again, and says something else, changes nothing.
func TestStartedOnce(t *testing.T) {
	h := newHostile(t, newSR(t, sr.RTO))
	h.recv()
	h.rest(5 * ms)
	for _, length := range []byte{100, 50} {
		for range 3 { // any of them may get lost
			h.forgers[1].say([]byte{frameStart, 0, length, 0, 0, 0, 0, 0, 2, 1, 0})
			h.rest(ms)
		}
		_, n := h.recvs[0].Progress()
		require.EqualValues(t, 100, n)
	}
	h.finish()
}
