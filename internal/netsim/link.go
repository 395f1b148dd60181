// SPDX-License-Identifier: Apache-2.0

package netsim

import "github.com/sdr-rdma/go-sdr/units"

// Outcome says whether a packet arrives.
type Outcome uint8

// Outcomes.
const (
	Delivered Outcome = iota
	// Lost: dropped at random, after it had used its share of the rate.
	Lost
	// QueueFull: dropped at the tail of the queue.
	QueueFull
)

// A Fate is what becomes of one packet. The fields after Left are meaningful
// only when it is Delivered.
type Fate struct {
	Outcome Outcome
	// Left is when the packet has left the queue.
	Left Time
	// Arrive is when it arrives, and Again when its copy does, which stays in
	// the order of its channel.
	Arrive, Again Time
	// Duplicated, Corrupted, Marked and Trimmed tell which of these happened.
	Duplicated, Corrupted, Marked, Trimmed bool
}

// A Link is one direction of a point-to-point link.
type Link struct {
	ports []Port // by channel modulo length
	loss  LossProcess
	delay []Time // by channel modulo length
	end   []Time // by the same: when it dies; nil: none does
	last  []Time // arrival of the last packet in order, by the same

	jitter, reorderBy               Time
	trimAbove                       Time // of the backlog; Never: not at all
	overtaking                      bool // some packets leave before others that came earlier
	pReorder, pDuplicate, pCorrupt  Prob
	pTrim                           Prob
	reorder, reorderDelay, jitterBy Stream
	duplicate, corrupt, trim        Stream
}

// NewLink makes a link whose faults are drawn from seed. c must be valid.
func NewLink(c *LinkConfig, seed uint64) *Link {
	l := &Link{
		loss:         NewLossProcess(c.Loss, seed),
		reorder:      newStream(seed, forReorder),
		reorderDelay: newStream(seed, forReorderDelay),
		jitterBy:     newStream(seed, forJitter),
		duplicate:    newStream(seed, forDuplicate),
		corrupt:      newStream(seed, forCorrupt),
		trim:         newStream(seed, forTrim),
	}
	l.Configure(c)
	return l
}

// Configure changes the link from the next packet on: packets under way keep
// their fate, and the draws go on where they are. c must be valid.
func (l *Link) Configure(c *LinkConfig) {
	l.trimAbove, l.pTrim = Never, ProbOf(c.Trim)
	if c.TrimAbove > 0 {
		l.trimAbove = Serialization(c.TrimAbove, c.Rate)
	}
	if n := max(1, len(c.ChannelRate)); len(l.ports) != n {
		l.ports = make([]Port, n)
	}
	l.overtaking = len(l.ports) > 1 || c.TrimAbove > 0
	for i := range l.ports {
		rate, queue, mark := c.Rate, c.Queue, c.MarkAbove
		if i < len(c.ChannelRate) {
			if rate = c.ChannelRate[i]; rate == 0 {
				queue, mark = 0, 0
			}
		}
		l.ports[i].Configure(rate, queue, mark)
	}
	l.end = l.end[:0]
	for _, d := range c.ChannelDownAt {
		at := Never
		if d > 0 {
			at = Span(d)
		}
		l.end = append(l.end, at)
	}
	l.loss.Configure(c.Loss)
	l.jitter, l.reorderBy = Span(c.Jitter), Span(c.ReorderDelay)
	l.pReorder, l.pDuplicate, l.pCorrupt = ProbOf(c.Reorder), ProbOf(c.Duplicate), ProbOf(c.Corrupt)
	paths := max(1, len(c.ChannelDelay))
	if len(l.last) != paths {
		l.last = make([]Time, paths)
	}
	l.delay = make([]Time, paths)
	for i := range l.delay {
		l.delay[i] = Span(c.Delay)
		if len(c.ChannelDelay) > 0 {
			l.delay[i] += Span(c.ChannelDelay[i])
		}
	}
}

// Carry takes a packet of n bytes that enters the link at now on a channel. now
// must not go back. Packets count for the draws in the order of the calls. loss
// decides whether the packet is lost: Loss, or the process of a class of packets
// that is lost by a rule of its own.
func (l *Link) Carry(loss *LossProcess, now Time, n units.Bytes, channel int) Fate {
	return l.carry(loss, now, n, n, channel)
}

// CarryData is Carry for a packet of which the link may leave only so many bytes of headers (TrimAbove, Trim).
func (l *Link) CarryData(loss *LossProcess, now Time, n, headers units.Bytes, channel int) Fate {
	return l.carry(loss, now, n, headers, channel)
}

func (l *Link) carry(loss *LossProcess, now Time, n, headers units.Bytes, channel int) Fate {
	// All draws come first, so that none depends on another's outcome.
	lost := loss.Lost()
	extra := l.drawReorder()
	jitter := l.drawJitter()
	duplicated := l.pDuplicate != 0 && l.duplicate.Hit(l.pDuplicate)
	corrupted := l.pCorrupt != 0 && l.corrupt.Hit(l.pCorrupt)

	port := &l.ports[uint(channel)%uint(len(l.ports))]
	trimmed := headers < n && (l.pTrim != 0 && l.trim.Hit(l.pTrim) || port.Backlog(now) > l.trimAbove)
	left, marked, ok := Time(0), false, true
	if trimmed {
		left = port.TakeFirst(now, headers)
	} else {
		left, marked, ok = port.Take(now, n)
	}
	if !ok {
		return Fate{Outcome: QueueFull, Left: now}
	}
	passes := left
	if l.overtaking {
		passes = now // the instants at which packets leave go back
	}
	if lost && loss.badAt(passes) || l.isDead(now, channel) {
		return Fate{Outcome: Lost, Left: left}
	}
	path := uint(channel) % uint(len(l.delay))
	inOrder := left + l.delay[path] + jitter
	if l.jitter > 0 && !trimmed {
		inOrder = max(inOrder, l.last[path])
		l.last[path] = inOrder
	}
	return Fate{
		Left: left, Arrive: inOrder + extra, Again: inOrder,
		Duplicated: duplicated, Corrupted: corrupted, Marked: marked, Trimmed: trimmed,
	}
}

func (l *Link) isDead(now Time, channel int) bool {
	return len(l.end) > 0 && now >= l.end[uint(channel)%uint(len(l.end))]
}

func (l *Link) drawReorder() Time {
	if l.pReorder == 0 {
		return 0
	}
	extra := l.reorderDelay.Below(l.reorderBy) + 1
	if !l.reorder.Hit(l.pReorder) {
		return 0
	}
	return extra
}

func (l *Link) drawJitter() Time {
	if l.jitter == 0 {
		return 0
	}
	return l.jitterBy.Below(l.jitter + 1)
}

// Loss is the link's own loss process.
func (l *Link) Loss() *LossProcess { return &l.loss }
