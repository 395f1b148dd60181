// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/units"
)

// The exhaustive checker: every state that both ends and the network between them can reach with a few packets,
// in every order of deliveries, trims, losses and one timeout that may be spurious. What is sent is under way at once,
// because the network may keep it for as long as it likes, unless a scope asks for more.

const (
	checkMessages = 2
	checkPackets  = 3
	most          = 3 // copies of a packet that are told apart
)

// The forms in which a packet is under way.
const (
	whileData = iota
	whileHeader
	whileReturned
	forms
)

// scope bounds a search.
type scope struct {
	cfg      Config
	messages int
	packets  int
	losses   uint8 // packets, headers or acknowledgements that vanish
	timeouts uint8
	// lazy: the sender may wait with what it could send, so that its retransmission queue fills.
	lazy bool
}

// fate is what is known of one packet of a message.
type fate struct {
	under  [forms][2]uint8 // copies by form and round
	placed bool
}

// world is a state: the ends themselves, and the network.
type world struct {
	req      Requester
	rsp      Responder
	packets  [checkMessages][checkPackets]fate
	acks     [checkMessages + 1]uint8 // by expected message
	losses   uint8
	timeouts uint8
	done     [2]int // completions at sender and receiver
}

// key is a world as far as its future depends on it. Packets of a message are alike, so that those with the same
// fates in another order are one state, unless something waits in the retransmission queue.
type key struct {
	packets       [checkMessages][checkPackets]fate
	acks          [checkMessages + 1]uint8
	una, expected uint8
	next, round   [checkMessages]uint8
	count         [checkMessages]uint16
	slotRound     [checkMessages]uint8
	losses        uint8
	timeouts      uint8
	queued        uint8
	queue         [8]entry
	bitmap        [checkMessages]uint8
}

func (w *world) key(s *scope) key {
	k := key{packets: w.packets, acks: w.acks, una: uint8(w.req.una), expected: uint8(w.rsp.expected), losses: w.losses, timeouts: w.timeouts, queued: uint8(w.req.retrans.Len())}
	for m := range s.messages {
		k.next[m], k.round[m] = uint8(w.req.wqes[m].next), w.req.wqes[m].round
		k.count[m], k.slotRound[m] = w.rsp.count[m], w.rsp.round[m]
		if s.cfg.Track == Bitmap && len(w.rsp.bitmap[m]) > 0 {
			k.bitmap[m] = uint8(w.rsp.bitmap[m][0])
		}
		if !s.lazy && s.cfg.Track == Counter {
			slices.SortFunc(k.packets[m][:], compareFates)
		}
	}
	for i := range min(w.req.retrans.Len(), len(k.queue)) {
		k.queue[i] = *w.req.retrans.At(i)
	}
	return k
}

func (f *fate) word() (v uint32) {
	for i := range f.under {
		for j := range f.under[i] {
			v = v<<2 | uint32(f.under[i][j])
		}
	}
	if f.placed {
		v |= 1 << 31
	}
	return v
}

func compareFates(a, b fate) int { return int(int64(a.word()) - int64(b.word())) }

// clone copies a world; the ends are values but for their slices.
func (w *world) clone() *world {
	c := *w
	c.req.retrans.Reset()
	for i := range w.req.retrans.Len() {
		c.req.retrans.Push(*w.req.retrans.At(i))
	}
	for i := range c.rsp.bitmap {
		c.rsp.bitmap[i] = slices.Clone(w.rsp.bitmap[i])
	}
	return &c
}

func (s *scope) begin() *world {
	cfg := s.cfg.Complete(units.Microsecond)
	cfg.AckInterval = 0 // every repeat is answered: more acknowledgements than there will be
	w := &world{req: *NewRequester(cfg, congestion.Path{MTU: 1}, 0, 0), rsp: *NewResponder(cfg, 0), losses: s.losses, timeouts: s.timeouts}
	for range s.messages {
		if _, err := w.req.Post(s.packets); err != nil {
			panic(err)
		}
	}
	if !s.lazy {
		w.sendAll(s)
	}
	return w
}

// send puts the next packet on its way.
func (w *world) send(s *scope) bool {
	var h Header
	index, _, ok := w.req.Transmit(0, &h)
	if !ok {
		return false
	}
	add(&w.packets[h.MSN][index].under[whileData][h.Round])
	return true
}

func (w *world) sendAll(s *scope) {
	for w.send(s) {
	}
}

func add(n *uint8) { *n = min(*n+1, most) }

// An event leads from one world to another, or to a violation.
type event struct {
	what     string
	m, i, r  int
	form     int
	from     int32 // the state before, for the trace
	violates string
}

func (e *event) String() string {
	return fmt.Sprintf("%s message %d packet %d round %d", e.what, e.m, e.i, e.r)
}

// explore searches breadth first, so that the first violation has the shortest trace.
func (s *scope) explore(t *testing.T) (states int, trace []string) {
	t.Helper()
	first := s.begin()
	seen := map[key]struct{}{first.key(s): {}}
	worlds, events := []*world{first}, []event{{from: -1}}
	for at := 0; at < len(worlds); at++ {
		w := worlds[at]
		moves := 0
		for _, e := range s.events(w) {
			c := w.clone()
			e.from = int32(at)
			e.violates = c.apply(s, &e)
			if e.violates != "" {
				return len(worlds), s.trace(events, e)
			}
			moves++
			k := c.key(s)
			if _, old := seen[k]; old {
				continue
			}
			seen[k] = struct{}{}
			worlds, events = append(worlds, c), append(events, e)
		}
		if moves == 0 && w.losses == s.losses && w.done != [2]int{s.messages, s.messages} {
			return len(worlds), s.trace(events, event{what: "stops", from: int32(at), violates: fmt.Sprintf("nothing is left to happen, nothing was lost, completions %v", w.done)})
		}
		worlds[at] = nil
	}
	return len(worlds), nil
}

func (s *scope) trace(events []event, last event) (lines []string) {
	lines = append(lines, last.String()+": "+last.violates)
	for i := last.from; i > 0; i = events[i].from {
		lines = append(lines, events[i].String())
	}
	slices.Reverse(lines)
	return lines
}

// events are what may happen next.
func (s *scope) events(w *world) (all []event) {
	may := func(what string, m, i, r, form int) {
		all = append(all, event{what: what, m: m, i: i, r: r, form: form})
	}
	for m := range s.messages {
		for i := range s.packets {
			for form := range forms {
				for r, n := range w.packets[m][i].under[form] {
					if n == 0 {
						continue
					}
					may("deliver "+[...]string{"data", "header", "returned header"}[form], m, i, r, form)
					if form == whileData {
						may("trim", m, i, r, form)
					}
					if w.losses > 0 {
						may("lose "+[...]string{"data", "header", "returned header"}[form], m, i, r, form)
					}
				}
			}
		}
	}
	for m, n := range w.acks {
		if n > 0 {
			may("deliver ack", m, 0, 0, 0)
			if w.losses > 0 {
				may("lose ack", m, 0, 0, 0)
			}
		}
	}
	if w.timeouts > 0 && w.req.una != w.req.next {
		may("timeout", int(w.req.una), 0, 0, 0)
	}
	if s.lazy {
		if c := w.clone(); c.send(s) {
			may("send", 0, 0, 0, 0)
		}
	}
	return all
}

// apply lets e happen and says what it violates.
func (w *world) apply(s *scope, e *event) string {
	f := &w.packets[e.m%checkMessages][e.i]
	kind, _, _ := strings.Cut(e.what, " ")
	switch {
	case kind == "send":
		w.send(s)
		return ""
	case kind == "timeout":
		w.timeouts--
		w.req.OnTimer(w.req.Next())
	case strings.HasSuffix(e.what, "ack"):
		w.acks[e.m]--
		if kind == "lose" {
			w.losses--
			return ""
		}
		w.done[0] += w.req.OnAck(0, uint32(e.m))
		if w.done[0] > w.done[1] {
			return "the sender completes what the receiver has not"
		}
	default:
		f.under[e.form][e.r]--
		h := Header{MSN: uint32(e.m), PSN: uint32(e.m*s.packets + e.i), Round: uint8(e.r)}
		switch {
		case kind == "lose":
			w.losses--
			return ""
		case kind == "trim":
			if s.cfg.Published {
				e.r = 0 // the round doesn't survive
			}
			add(&f.under[whileHeader][e.r])
			return ""
		case e.form == whileData:
			if v := w.onData(s, &h, e); v != "" {
				return v
			}
		case e.form == whileHeader:
			a := w.rsp.OnHeader(0, &h)
			w.answer(a)
			if a.Return {
				add(&f.under[whileReturned][e.r])
			}
		case e.form == whileReturned:
			w.req.OnReturned(0, &h)
		}
	}
	if !s.lazy {
		w.sendAll(s)
	}
	return ""
}

func (w *world) answer(a Answer) {
	if a.Ack {
		add(&w.acks[a.Expected])
	}
}

func (w *world) onData(s *scope, h *Header, e *event) string {
	before := w.rsp.expected
	finished := h.MSN < before || w.rsp.count[h.MSN]&whole != 0
	a := w.rsp.OnData(0, h, uint32(e.i), uint32(s.packets))
	w.answer(a)
	f := &w.packets[e.m][e.i]
	if a.Place {
		if finished {
			return "something is placed in a finished message"
		}
		if f.placed && w.timeouts == s.timeouts {
			return "without a timeout, a packet is placed twice"
		}
		f.placed = true
	}
	if w.rsp.expected != before+uint32(a.Completed) {
		return "completions and the expected message differ"
	}
	w.done[1] += a.Completed
	for m := before; m < w.rsp.expected; m++ {
		for i := range s.packets {
			if !w.packets[m][i].placed {
				return fmt.Sprintf("message %d completes with a hole at packet %d", m, i)
			}
		}
	}
	if whole := w.rsp.count[h.MSN]&whole != 0; whole {
		for i := range s.packets {
			if !w.packets[h.MSN][i].placed {
				return fmt.Sprintf("message %d counts as whole with a hole at packet %d", h.MSN, i)
			}
		}
	}
	return ""
}

// The race detector takes ten times as long: it searches what can happen without losses.
func oneLoss() uint8 {
	if race.Enabled {
		return 0
	}
	return 1
}

// With the round in the header nothing goes wrong, whatever happens in whatever order.
func TestExhaustive(t *testing.T) {
	for name, s := range map[string]scope{
		"2 messages, 3 packets":           {messages: 2, packets: 3, losses: oneLoss(), timeouts: 1},
		"1 message, 3 packets, 3 losses":  {messages: 1, packets: 3, losses: 3, timeouts: 1},
		"2 messages, 2 packets, lazy":     {messages: 2, packets: 2, losses: oneLoss(), timeouts: 1, lazy: true},
		"1 message, 2 packets with bits":  {cfg: Config{Track: Bitmap}, messages: 1, packets: 2, losses: 2, timeouts: 1},
		"2 messages, 2 packets with bits": {cfg: Config{Track: Bitmap}, messages: 2, packets: 2, losses: 1, timeouts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states, trace := s.explore(t)
			t.Logf("%d states", states)
			require.Empty(t, trace, strings.Join(trace, "\n"))
			require.Greater(t, states, 300, "the search ends too soon")
		})
	}
}

// With the published header of 57 bytes the checker must find the hole; with a bitmap there is none even then.
func TestExhaustivePublished(t *testing.T) {
	s := scope{cfg: Config{Published: true}, messages: 1, packets: 3, timeouts: 1}
	states, trace := s.explore(t)
	require.NotEmpty(t, trace, "%d states", states)
	last := trace[len(trace)-1]
	require.Contains(t, last, "hole")
	require.NotContains(t, strings.Join(trace, "\n"), "lose", "one timeout that comes too early is enough")
	t.Logf("after %d states:\n%s", states, strings.Join(trace, "\n"))

	s.cfg.Track = Bitmap
	states, trace = s.explore(t)
	require.Empty(t, trace, strings.Join(trace, "\n"))
	t.Logf("with a bitmap: %d states", states)
}
