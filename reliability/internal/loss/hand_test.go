// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// handRTT is the round trip in hand-driven tests.
const handRTT = 10 * units.Millisecond

// A hand drives a sender, whose packets reach nobody, and a board on which a
// receiver reads what the test put there.
type hand struct {
	t   *testing.T
	now units.Instant
	env scheme.Env
	s   *Tracker
	out scheme.Output
	// sends are the transmissions so far, with the channels that they took.
	sends []scheme.Sent
	board board
	r     *Reporter
}

// newHand starts a transfer of n units over channels, spread one by one.
func newHand(t *testing.T, rule Rule, n, channels int) *hand {
	h := &hand{t: t, now: 1000}
	h.env = scheme.Env{
		Channels: channels, RTT: handRTT, MinRTT: handRTT, MaxFrame: 1024, DataLimit: n,
		AckInterval: 100 * units.Microsecond,
	}
	c := Config{Rule: rule}
	require.NoError(t, c.Check())
	info := scheme.Transfer{Length: units.Bytes(n) * 4096, UnitBytes: 4096, Units: n}
	require.NoError(t, CheckTransfer(&info, &h.env))
	h.s, h.r = new(Tracker), new(Reporter)
	h.s.Begin(c, new(Estimates), info, &h.env)
	h.r.Begin(info, &h.env)
	h.board = board{total: n, present: make([]uint64, n/64+1), marks: make([]scheme.Mark, channels)}
	h.out = scheme.Output{Sends: make([]scheme.Send, 0, 4096), Frame: make([]byte, 0, 1024)}
	return h
}

// fill does with h.out what a scheme's Poll does: it repeats everything that is lost.
func (h *hand) fill() (next units.Instant) {
	next = h.s.Expire(h.now)
	room := h.out.Budget
	for ; room > 0; room-- {
		l, ok := h.s.NextLost()
		if !ok {
			break
		}
		h.s.Repeat(l.Unit)
		h.out.Sends = append(h.out.Sends, scheme.Send{Unit: scheme.Unit(l.Unit), Channel: l.Channel, Repeat: true})
	}
	room -= h.s.SendNew(h.now, &h.out, room)
	return min(next, h.s.Probe(h.now, &h.out, room))
}

// after lets time pass.
func (h *hand) after(d units.Duration) *hand { h.now = h.now.Add(d); return h }

// poll lets the sender send and returns what it sent.
func (h *hand) poll(budget, window int) []scheme.Send {
	h.out.Reset()
	h.out.Budget, h.out.Window = budget, window
	h.fill()
	sent := make([]scheme.Sent, len(h.out.Sends))
	for i, s := range h.out.Sends {
		c := s.Channel
		if c == scheme.HomeChannel {
			c = s.Unit.Index() % h.env.Channels
		}
		sent[i] = scheme.Sent{Unit: s.Unit, Channel: c}
	}
	h.s.OnSent(h.now, sent)
	h.sends = append(h.sends, sent...)
	return append([]scheme.Send(nil), h.out.Sends...)
}

// units are the data units among the sends of a poll without limits.
func (h *hand) units() (us []int) {
	for _, s := range h.poll(1000, 1000) {
		if s.Unit.IsData() {
			us = append(us, s.Unit.Index())
		}
	}
	return us
}

// arrive places the i-th transmissions on the board.
func (h *hand) arrive(index ...int) *hand {
	for _, i := range index {
		h.board.arrive(h.sends[i])
	}
	return h
}

// frameAt puts the receiver's frame, if it makes one now, into h.out, and returns when
// it may make the next.
func (h *hand) frameAt() (next units.Instant) {
	h.out.Reset()
	due, next, _ := h.r.Due(h.now, &h.board)
	if due {
		h.out.Frame, next = h.r.AppendAck(h.now, h.out.Frame, h.env.MaxFrame, &h.board)
	}
	return next
}

// frame is the receiver's next frame.
func (h *hand) frame() []byte {
	for range 3 {
		h.now = h.now.Add(h.env.AckInterval)
		if f := h.anyFrame(); f != nil {
			return f
		}
	}
	h.t.Fatal("the receiver makes no frame")
	return nil
}

// anyFrame is the receiver's frame if it makes one now.
func (h *hand) anyFrame() []byte {
	h.frameAt()
	if len(h.out.Frame) == 0 {
		return nil
	}
	return append([]byte(nil), h.out.Frame...)
}

// onFrame gives a frame to the sender.
func (h *hand) onFrame(frame []byte) *hand {
	require.NoError(h.t, h.s.OnAck(h.now, frame))
	return h
}

// ack is a round trip.
func (h *hand) ack() { h.onFrame(h.after(handRTT).frame()) }

// A board is a View that tests write on.
type board struct {
	total   int
	present []uint64
	marks   []scheme.Mark
	calls   []string
}

func (b *board) arrive(s scheme.Sent) {
	if s.Unit.IsData() {
		b.present[s.Unit.Index()>>6] |= 1 << (s.Unit.Index() & 63)
	}
	m := &b.marks[s.Channel]
	*m = scheme.Mark{Unit: s.Unit, Count: m.Count + 1, Valid: true}
}

func (b *board) Has(u scheme.Unit) bool { return b.present[u>>6]>>(u&63)&1 != 0 }

func (b *board) NextMissing(from int) int {
	b.calls = append(b.calls, "bitmap")
	return min(b.next(from, b.total, ^uint64(0)), b.total)
}

func (b *board) NextPresent(from, to int) int {
	b.calls = append(b.calls, "bitmap")
	return b.next(from, to, 0)
}

func (b *board) next(from, to int, flip uint64) int {
	for i := from; i < to; i = i&^63 + 64 {
		if w := (b.present[i>>6] ^ flip) >> (i & 63) << (i & 63); w != 0 {
			return min(to, i&^63+bits.TrailingZeros64(w))
		}
	}
	return to
}

func (b *board) Mark(c int) scheme.Mark {
	b.calls = append(b.calls, "mark")
	return b.marks[c]
}

func (b *board) First() units.Instant   { return 0 }
func (b *board) Home(u scheme.Unit) int { return 0 }
