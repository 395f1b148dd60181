// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// In hand-driven tests a round trip takes handRTT and a unit unitTime.
const (
	handRTT  = 10 * units.Millisecond
	handRate = 32_768_000_000 * units.BitPerSecond
	unitTime = units.Microsecond
)

// A hand drives a sender, whose packets reach nobody, and a board on which a
// receiver reads what the test put there.
type hand struct {
	t     *testing.T
	now   units.Instant
	env   scheme.Env
	s     *sender
	out   scheme.Output
	next  units.Instant
	done  bool
	board board
	r     *receiver
	// jobs are those started and not yet done.
	jobs []scheme.Job
	// parityFree is what the receiver returned at the last poll.
	parityFree int
}

// newHand starts a transfer of n units, with room for all of it.
func newHand(t *testing.T, c Config, n int) *hand {
	h := &hand{t: t, now: 1_000_000}
	h.env = scheme.Env{
		Channels: 4, RTT: handRTT, MinRTT: handRTT, MaxFrame: 1024, Rate: handRate,
		DataLimit: n, ParityLimit: 1 << 20, AckInterval: 300 * units.Microsecond,
	}
	sch, err := New(c)
	require.NoError(t, err)
	info := scheme.Transfer{Length: units.Bytes(n) * 4096, UnitBytes: 4096, Units: n}
	require.Equal(t, unitTime, h.env.UnitTime(&info))
	s, err := sch.NewSender(info, &h.env)
	require.NoError(t, err)
	h.s = s.(*sender)
	info.Params = s.Params()
	r, err := sch.NewReceiver(info, &h.env)
	require.NoError(t, err)
	h.r = r.(*receiver)
	h.board = board{total: n, present: map[scheme.Unit]bool{}, marks: make([]scheme.Mark, 4), first: units.Never}
	h.out = scheme.Output{Sends: make([]scheme.Send, 0, 4096), Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 64)}
	return h
}

// after lets time pass.
func (h *hand) after(d units.Duration) *hand { h.now = h.now.Add(d); return h }

// poll lets the sender send and returns what it sent.
func (h *hand) poll(budget, window int) []scheme.Send {
	h.out.Reset()
	h.out.Budget, h.out.Window = budget, window
	var err error
	h.next, err = h.s.Poll(h.now, &h.out)
	require.NoError(h.t, err)
	sent := make([]scheme.Sent, len(h.out.Sends))
	for i, s := range h.out.Sends {
		sent[i] = scheme.Sent{Unit: s.Unit, Channel: max(0, s.Channel)}
	}
	h.s.OnSent(h.now, sent)
	h.jobs = append(h.jobs, h.out.Jobs...)
	return append([]scheme.Send(nil), h.out.Sends...)
}

// send polls without limits and completes coding jobs at once; it returns the units.
func (h *hand) send() (us []scheme.Unit) {
	for {
		sends := h.poll(1<<20, 1<<20)
		for _, s := range sends {
			us = append(us, s.Unit)
		}
		if len(sends) == 0 && len(h.jobs) == 0 {
			return us
		}
		h.code()
	}
}

// code completes the running jobs.
func (h *hand) code() {
	for _, j := range h.jobs {
		if j.Kind == scheme.Encode {
			h.s.OnJob(h.now, j.ID)
			continue
		}
		for _, i := range j.Missing {
			h.board.present[j.Data[i]] = true
		}
		h.r.OnJob(h.now, j.ID)
	}
	h.jobs = h.jobs[:0]
}

// arrive places units on the board, one after the other.
func (h *hand) arrive(us ...scheme.Unit) *hand {
	for _, u := range us {
		h.board.arrive(h.now, u)
	}
	return h
}

// look polls the receiver and returns its frame, if it makes one.
func (h *hand) look() []byte {
	h.out.Reset()
	var err error
	h.next, h.done, err = h.r.Poll(h.now, &h.board, &h.out)
	require.NoError(h.t, err)
	require.True(h.t, h.done || h.next > h.now, "asks to be polled at %d, at %d", h.next, h.now)
	h.jobs = append(h.jobs, h.out.Jobs...)
	h.parityFree = h.out.ParityFree
	return append([]byte(nil), h.out.Frame...)
}

// reported is the frame that the receiver sends when polled now, or nil.
func (h *hand) reported() *state {
	frame := h.look()
	if len(frame) == 0 {
		return nil
	}
	return h.parse(frame)
}

func (h *hand) parse(frame []byte) *state {
	s := new(state)
	require.NoError(h.t, s.parse(frame, &h.r.layout, h.r.layout.groups))
	return s
}

// asks lets time pass until the receiver asks for units.
func (h *hand) asks(within units.Duration) []span {
	for deadline := h.now.Add(within); h.now < deadline; {
		if s := h.reported(); s != nil && len(s.wants) > 0 {
			return s.wants
		}
		h.now = min(h.next, deadline)
	}
	return nil
}

// onFrame gives a frame to the sender.
func (h *hand) onFrame(frame []byte) *hand {
	require.NoError(h.t, h.s.OnControl(h.now, frame))
	return h
}

// say makes a frame, newer than all before, and gives it to the sender.
func (h *hand) say(cum int, groups []groupState, wants ...span) {
	h.onFrame(h.frame(h.s.lastFrame+1, cum, groups, wants...))
}

func (h *hand) frame(number uint64, cum int, groups []groupState, wants ...span) []byte {
	w := frameWriter{Writer: varint.Writer{Limit: 4096}}
	w.begin(number, cum, cum)
	for _, g := range groups {
		w.group(g.have, g.group, g.next)
	}
	w.beginWants(h.s.layout.first(cum), 4096)
	for _, s := range wants {
		w.want(s.from, s.to)
	}
	w.flush()
	return w.B
}

func dataUnits(from, to int) (us []scheme.Unit) {
	for u := from; u < to; u++ {
		us = append(us, scheme.Unit(u))
	}
	return us
}

func parityUnits(from, to int) (us []scheme.Unit) {
	for u := from; u < to; u++ {
		us = append(us, scheme.Parity|scheme.Unit(u))
	}
	return us
}

// A board is a View that tests write on.
type board struct {
	total   int
	present map[scheme.Unit]bool
	marks   []scheme.Mark
	first   units.Instant
	arrived int
}

func (b *board) arrive(now units.Instant, u scheme.Unit) {
	b.first = min(b.first, now)
	if !u.IsProbe() {
		b.present[u] = true
	}
	m := &b.marks[b.arrived%len(b.marks)]
	*m = scheme.Mark{Unit: u, Count: m.Count + 1, Valid: true}
	b.arrived++
}

func (b *board) Has(u scheme.Unit) bool { return b.present[u] }

func (b *board) NextMissing(from int) int {
	for from < b.total && b.present[scheme.Unit(from)] {
		from++
	}
	return from
}

func (b *board) NextPresent(from, to int) int {
	for from < to && !b.present[scheme.Unit(from)] {
		from++
	}
	return from
}

func (b *board) Mark(c int) scheme.Mark { return b.marks[c] }

func (b *board) First() units.Instant   { return b.first }
func (b *board) Home(u scheme.Unit) int { return 0 }
