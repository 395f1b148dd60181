// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/transport"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// A receiver gives the core's receiver the packets that the bitmap shows, and sends what that answers.
type receiver struct {
	core  *core.Receiver
	msg   transport.Message
	env   *scheme.Env
	total int
	span  int
	delay units.Duration // Config.AckDelay

	// marks is how far each channel has got, seen how far it had at the last poll, and reported what the sender has been
	// sent of that. advanced are the channels that have got further since that poll, and nextReport the one that the next frame
	// tells of first.
	marks, seen, reported []scheme.Mark
	advanced              []int
	nextReport            int

	// acks wait for a frame. ackDue is when what was received since the last acknowledgement will be acknowledged,
	// and latest the packet that came last.
	acks         []ack
	ackDue       units.Instant
	latest       transport.Packet
	replies      transport.Replies
	probe        uint32 // the number of the probe that is being answered
	coding       coding
	toldComputed bool // the sender has been sent which units are
	stats        scheme.Stats
}

// notKnown is the entropy of a packet whose channel isn't known: another of its channel came between it and the poll.
const notKnown = 1<<16 - 1

func newReceiver(c *Config, t scheme.Transfer, env *scheme.Env, p params) (*receiver, error) {
	msg := messageOf(&t, defaultLineRate, leastBaseRTT)
	cfg := core.Config{Paths: env.Channels, Span: p.span, AckBytes: units.Bytes(p.ackUnits) * msg.MTU}
	r, err := cfg.NewReceiver(msg, uint32(p.parity))
	if err != nil {
		return nil, err
	}
	return &receiver{
		core: r, msg: msg, env: env, total: t.Units, span: int(p.span), delay: c.AckDelay, coding: coding{parity: p.parity},
		marks: make([]scheme.Mark, env.Channels), seen: make([]scheme.Mark, env.Channels), reported: make([]scheme.Mark, env.Channels), advanced: make([]int, 0, env.Channels),
		acks: make([]ack, 0, maxAcks), ackDue: units.Never,
	}, nil
}

var errNoFrames = errors.New("strack: the sender's half sends no frames")

func (r *receiver) OnControl(units.Instant, []byte) error { return errNoFrames }

func (r *receiver) Stats() scheme.Stats { return r.stats }

// Poll handles what has arrived, and acknowledges.
func (r *receiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	if packets := r.look(v); packets > 0 {
		r.giveAll(now, v, packets)
	}
	if v.NextMissing(r.placed()) >= r.total {
		return units.Never, true, nil
	}
	if r.core.Complete() {
		r.decode(v, out)
	}
	if now >= r.ackDue {
		r.answerLatest(now)
	}
	if len(r.acks) > 0 && len(out.Frame) == 0 {
		r.frame(out)
	}
	return r.ackDue, false, nil
}

// placed is a number of units that are in place, from the first on. When parity has made the message whole there may be none.
func (r *receiver) placed() int {
	if r.coding.parity > 0 && r.core.Complete() {
		return 0
	}
	return int(r.core.Expected())
}

// look finds which channels have got further, and returns by how many packets in all. Marks are loaded before the
// bitmap is looked at: what they show is there.
func (r *receiver) look(v scheme.View) (packets uint64) {
	r.advanced = r.advanced[:0]
	for c := range r.seen {
		if m := v.Mark(c); m.Valid && m.Count != r.seen[c].Count {
			packets += m.Count - r.seen[c].Count
			r.marks[c] = m
			r.advanced = append(r.advanced, c)
		}
	}
	return packets
}

// giveAll gives the core what has come, in the order of units where more than one packet has.
func (r *receiver) giveAll(now units.Instant, v scheme.View, packets uint64) {
	if packets == 1 {
		r.giveLast(now, v)
		return
	}
	to := min(int(r.core.Expected())+r.span, r.total)
	for u := v.NextPresent(int(r.core.Expected()), to); u < to; {
		end := min(v.NextMissing(u), to)
		for ; u < end; u++ {
			if !r.core.Has(uint32(u)) && !r.isLast(scheme.Unit(u)) {
				r.give(now, scheme.Unit(u), notKnown, false)
			}
		}
		u = v.NextPresent(u, to)
	}
	for i := range r.coding.parity {
		if u := scheme.Parity | scheme.Unit(i); !r.core.Has(r.psnOf(u)) && !r.isLast(u) && v.Has(u) {
			r.give(now, u, notKnown, false)
		}
	}
	r.giveLast(now, v)
}

// isLast reports whether unit u is the last packet of a channel, which giveLast gives.
func (r *receiver) isLast(u scheme.Unit) bool {
	for _, c := range r.advanced {
		if r.marks[c].Unit == u {
			return true
		}
	}
	return false
}

// giveLast gives the core the last packet of each channel that has got further: those whose path is known. A unit of several packets is
// one of the core's when all of them are in place, and marked if one of them was.
func (r *receiver) giveLast(now units.Instant, v scheme.View) {
	for _, c := range r.advanced {
		m := r.marks[c]
		if !m.Unit.IsProbe() && !v.Has(m.Unit) {
			r.seen[c].Count = m.Count
			continue
		}
		marked := m.Marked != r.seen[c].Marked
		r.seen[c] = m
		r.give(now, m.Unit, uint16(c), marked)
	}
}

// give gives the core one packet, and keeps what it answers.
func (r *receiver) give(now units.Instant, u scheme.Unit, path uint16, marked bool) {
	p := transport.Packet{Kind: transport.Data, PSN: r.psnOf(u), Entropy: path}
	if marked {
		p.Flags = transport.CE
	}
	switch {
	case u.IsProbe():
		p.Kind, p.PSN, r.probe = transport.Probe, r.core.Expected(), uint32(u.Index())
	case int(p.PSN) >= r.total+r.coding.parity:
		return
	default:
		p.Payload = uint16(r.msg.MTU)
		if u.IsData() {
			p.Payload = r.msg.Payload(p.PSN)
		}
		r.latest = p
		if r.ackDue == units.Never && r.delay >= 0 {
			r.ackDue = now.Add(max(r.delay, 1))
			if r.delay == 0 {
				r.ackDue = now.Add(max(r.env.AckInterval, minDelay))
			}
		}
	}
	r.replies.Reset()
	r.core.OnPacket(now, &p, &r.replies)
	for i := range r.replies.Len() {
		r.keep(r.replies.At(i))
	}
}

// minDelay keeps a connection without an interval from answering each packet.
const minDelay = 10 * units.Microsecond

// answerLatest acknowledges what has come since the last acknowledgement.
func (r *receiver) answerLatest(now units.Instant) {
	r.replies.Reset()
	r.core.Answer(now, &r.latest, &r.replies)
	r.keep(r.replies.At(0))
}

// keep keeps an acknowledgement for the next frame. Where there are too many the oldest goes: all that matters of
// it is in those after it.
func (r *receiver) keep(p *transport.Packet) {
	a := ack{
		unit: p.PSN, channel: int(p.Entropy), expected: p.Expected, beyond: p.Sack.Beyond,
		received: uint64(p.Sack.Received), base: p.Sack.Base, bitmap: p.Sack.Bitmap,
	}
	if p.Entropy == notKnown {
		a.channel = -1
	}
	if p.Flags&transport.Echo != 0 {
		a.flags |= flagECN
	}
	if p.Sack.Probe {
		a.flags |= flagProbe
		a.unit = r.probe
	} else {
		r.ackDue = units.Never
	}
	if len(r.acks) == maxAcks {
		r.acks = r.acks[:copy(r.acks, r.acks[1:])]
	}
	r.acks = append(r.acks, a)
}

// frame puts as many acknowledgements into a frame as it has room for, and what channels have delivered.
func (r *receiver) frame(out *scheme.Output) {
	room := min(r.env.MaxFrame, cap(out.Frame))
	if room < minFrame {
		return
	}
	computed := r.newlyComputed(room)
	room -= len(computed)
	n := min(len(r.acks), (room-5-maxDelivered)/maxAck)
	b := append(out.Frame[:0], version, byte(n))
	for i := range r.acks[:n] {
		b = r.acks[i].append(b)
	}
	r.acks = r.acks[:copy(r.acks, r.acks[n:])]
	b = append(r.appendDelivered(b, room-1), byte(len(computed)))
	for _, u := range computed {
		b = append(b, byte(u))
	}
	out.Frame = b
	r.stats.Frames++
	r.stats.FrameBytes += uint64(len(out.Frame))
}

// newlyComputed are the units that are being computed, if there is room for them and the sender has not been told.
func (r *receiver) newlyComputed(room int) []int {
	if r.toldComputed || r.coding.state == uncoded || room < minFrame+len(r.coding.job.Missing) {
		return nil
	}
	r.toldComputed = true
	return r.coding.job.Missing
}

// appendDelivered reports the channels that have delivered more than was reported, as far as there is room.
func (r *receiver) appendDelivered(b []byte, room int) []byte {
	at, n := len(b), 0
	b = append(b, 0, 0) // how many: up to 256, in two bytes
	for range r.seen {
		if len(b)+maxDelivered > room {
			break
		}
		c := r.nextReport
		r.nextReport = (r.nextReport + 1) % len(r.seen)
		if m := r.seen[c]; m.Count != r.reported[c].Count {
			r.reported[c] = m
			d := delivered{c, m.Count, m.Marked}
			b = d.append(b)
			n++
		}
	}
	b[at], b[at+1] = byte(n)|0x80, byte(n>>7)
	return b
}
