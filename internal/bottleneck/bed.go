// SPDX-License-Identifier: Apache-2.0

package bottleneck

import (
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/ring"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Link is what all flows share.
type Link struct {
	Rate   units.Rate
	Buffer units.Bytes // of the queue, the packet being sent included
	Packet units.Bytes // size of every packet
	Loss   float64     // chance of each packet that left the queue to get lost
	// Jitter is up to how much longer each packet may take behind the queue. A flow's packets keep their order.
	Jitter units.Duration
	// Packets that find more than MarkFrom bytes waiting are marked with a chance that grows to
	// MarkMost at MarkTo, and always beyond it. MarkTo 0: never.
	MarkFrom, MarkTo units.Bytes
	MarkMost         float64
	// Trims: nothing waits. The queue is only reckoned, as an XDP program does it: what finds room passes at once, of the
	// rest its sender hears a round trip later that it was trimmed.
	Trims   bool
	Changes []Change // in the order of their instants
	Seed    uint64
}

// A Change is a new rate of the link. 0: it carries nothing, and what arrives is lost.
type Change struct {
	At   units.Instant
	Rate units.Rate
	// Detour is by how much the round trip of each flow is longer from then on.
	Detour units.Duration
}

// A Flow is a sender that always has data.
type Flow struct {
	Controller  congestion.Controller
	RTT         units.Duration // without the queue
	Start, Stop units.Instant  // Stop 0: never
	// Report is how often the receiver reports; 0: at once, for each packet.
	Report units.Duration
	// Sender and Receiver are the ends' processors. A sender that was stalled catches up with at
	// most catchUp of what its rate allowed meanwhile.
	Sender, Receiver Stalls
}

// Bin is how long each of a flow's records is.
const Bin = 50 * units.Millisecond

// A Record is what happened to a flow's packets within one Bin.
type Record struct {
	Sent      units.Bytes // by the sender
	Delivered units.Bytes // to the receiver, as the sender hears of it
	Dropped   units.Bytes // by the full queue
	Lost      units.Bytes // at random
	Marked    units.Bytes
	Trimmed   units.Bytes
	Timeouts  int
}

// A queueRecord is what the queue held within one Bin, weighted by time.
type queueRecord struct {
	byteTime float64 // bytes times seconds
	most     units.Bytes
}

// A Bed is one run.
type Bed struct {
	link   Link
	rate   units.Rate
	detour units.Duration
	flows  []*sender
	now    units.Instant
	draw   *rand.Rand
	queues []queueRecord

	fifo    ring.Ring[waiting]
	backlog units.Bytes
	depart  units.Instant // of the packet at the head
	seen    units.Instant // until when the queue has been recorded
	idle    units.Instant // when what a link that trims has let pass would have left it
	longest units.Bytes   // that the queue was since WatchQueue
}

type waiting struct {
	flow    int
	seq     uint64
	ce      bool
	trimmed bool
}

// accessFactor is how much faster than the bottleneck a sender without a rate of its own sends.
const accessFactor = 10

// New makes a run that stands at instant 0.
func New(link Link, flows ...Flow) *Bed {
	b := &Bed{link: link, rate: link.Rate, draw: rand.New(rand.NewPCG(link.Seed, 0xbed)), depart: units.Never}
	for i, f := range flows {
		b.flows = append(b.flows, newSender(b, i, f))
	}
	return b
}

// Records are those of flow i so far.
func (b *Bed) Records(i int) []Record { return b.flows[i].records }

// Run lets time pass until end.
func (b *Bed) Run(end units.Instant) {
	for {
		at, what, flow := b.next()
		if at >= end {
			b.observe(end)
			b.now = end
			return
		}
		b.now = max(b.now, at)
		switch what {
		case eventChange:
			b.change()
		case eventDepart:
			b.departed()
		case eventFeedback:
			b.flows[flow].feedback(b.now)
		case eventTimeout:
			b.flows[flow].timeout(b.now)
		case eventSend:
			b.flows[flow].send(b.now)
		}
	}
}

type event uint8

const (
	eventChange event = iota
	eventDepart
	eventFeedback
	eventTimeout
	eventSend
)

func (b *Bed) next() (at units.Instant, what event, flow int) {
	at, what = b.depart, eventDepart
	if len(b.link.Changes) > 0 && b.link.Changes[0].At <= at {
		at, what = b.link.Changes[0].At, eventChange
	}
	for i, s := range b.flows {
		if t := s.feedbackAt(); t < at {
			at, what, flow = t, eventFeedback, i
		}
		if s.deadline < at {
			at, what, flow = s.deadline, eventTimeout, i
		}
		if s.sendAt < at {
			at, what, flow = s.sendAt, eventSend, i
		}
	}
	return at, what, flow
}

// change sets a new rate. The packet on the link is sent anew at it.
func (b *Bed) change() {
	b.observe(b.now)
	b.rate, b.detour = b.link.Changes[0].Rate, b.link.Changes[0].Detour
	b.link.Changes = b.link.Changes[1:]
	if b.rate == 0 {
		for b.fifo.Len() > 0 {
			w := b.pop()
			b.flows[w.flow].record(b.now).Lost += b.link.Packet
		}
		b.depart = units.Never
		return
	}
	b.begin()
}

func (b *Bed) begin() {
	b.depart = units.Never
	if b.fifo.Len() > 0 {
		b.depart = b.now.Add(b.rate.Time(b.link.Packet))
	}
}

// observe records the queue up to t.
func (b *Bed) observe(t units.Instant) {
	for b.seen < t {
		i := int(b.seen / units.Instant(Bin))
		for len(b.queues) <= i {
			b.queues = append(b.queues, queueRecord{})
		}
		to := min(t, units.Instant(i+1)*units.Instant(Bin))
		b.queues[i].byteTime += float64(b.backlog) * to.Sub(b.seen).Seconds()
		b.queues[i].most = max(b.queues[i].most, b.backlog)
		b.seen = to
	}
}

// arrive takes a packet of a flow into the queue, or drops it.
func (b *Bed) arrive(flow int, seq uint64) {
	b.observe(b.now)
	r := b.flows[flow].record(b.now)
	switch {
	case b.rate == 0:
		r.Lost += b.link.Packet
		return
	case b.link.Trims:
		b.reckon(flow, seq)
		return
	case b.backlog+b.link.Packet > max(b.link.Buffer, b.link.Packet):
		r.Dropped += b.link.Packet
		return
	}
	ce := b.marks()
	if ce {
		r.Marked += b.link.Packet
	}
	b.push(waiting{flow: flow, seq: seq, ce: ce})
	if b.fifo.Len() == 1 {
		b.begin()
	}
}

// reckon lets a packet pass that a queue would have had room for, or trims it.
func (b *Bed) reckon(flow int, seq uint64) {
	w := waiting{flow: flow, seq: seq, trimmed: b.idle.Sub(b.now) >= b.rate.Time(b.link.Buffer)}
	if w.trimmed {
		b.flows[flow].record(b.now).Trimmed += b.link.Packet
	} else {
		b.idle = max(b.idle, b.now).Add(b.rate.Time(b.link.Packet))
	}
	b.flows[flow].arrived(b.now, w)
}

func (b *Bed) marks() bool {
	if b.link.MarkTo == 0 || b.backlog <= b.link.MarkFrom {
		return false
	}
	share := float64(b.backlog-b.link.MarkFrom) / float64(max(b.link.MarkTo-b.link.MarkFrom, 1))
	return share >= 1 || b.draw.Float64() < share*b.link.MarkMost
}

func (b *Bed) departed() {
	b.observe(b.now)
	w := b.pop()
	b.begin()
	if b.link.Loss > 0 && b.draw.Float64() < b.link.Loss {
		b.flows[w.flow].record(b.now).Lost += b.link.Packet
		return
	}
	b.flows[w.flow].arrived(b.now, w)
}

func (b *Bed) push(w waiting) {
	b.fifo.Push(w)
	b.backlog += b.link.Packet
	b.longest = max(b.longest, b.backlog)
}

func (b *Bed) pop() waiting {
	b.backlog -= b.link.Packet
	return b.fifo.Pop()
}
