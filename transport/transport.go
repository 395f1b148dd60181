// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Kind says what a packet is. Data and probes go to the receiver, the others to the sender.
type Kind uint8

// The kinds of packets.
const (
	Data  Kind = iota
	Probe      // asks for an answer, carries no data
	Ack
	Nak  // reports a gap (IBTA 9.7.5.2.8, PSN sequence error), or with IRN any packet out of order
	CNP  // congestion notification (IBTA annex A17.9.3)
	Sack // acknowledges selectively: Packet.Sack tells what
	// Returned is a trimmed packet that its receiver has sent back, with the numbers of that packet.
	Returned
)

var kinds = [...]string{"data", "probe", "ack", "nak", "cnp", "sack", "returned"}

// String is the kind's name.
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "unknown"
}

// ToSender reports whether packets of the kind travel from the receiver to the sender.
func (k Kind) ToSender() bool { return k >= Ack }

// Flags are properties of a packet.
type Flags uint8

// The flags.
const (
	// ECT: the packet may be marked (RFC 3168).
	ECT Flags = 1 << iota
	// CE: a switch has marked it.
	CE
	// Trimmed: a switch has cut the payload off.
	Trimmed
	// Repeat: the sender has sent this PSN before.
	Repeat
	// Last is set on the packet that ends the message.
	Last
	// Echo, on feedback: the packet that caused it carried CE.
	Echo
	// Notify, on feedback: it is a congestion notification as well, as a CNP would be.
	Notify
)

// A Packet is the part of a header that transports read and write.
type Packet struct {
	// Sent is when the sender sent the packet; feedback carries the value of the packet that
	// caused it.
	Sent units.Instant
	// PSN is the number of a data packet within its message, from 0. On feedback it is that of the
	// packet that caused it.
	PSN uint32
	// Expected, on feedback: all packets before it have been received. On data, and on what is Returned,
	// it is the transport's own.
	Expected uint32
	// Payload is in bytes; at most 65535 with all headers.
	Payload uint16
	// Entropy chooses among paths where switches spray by it, as the UDP source port does.
	Entropy uint16
	Kind    Kind
	Flags   Flags
	// Sack belongs to packets of that kind, and is valid as long as the packet is.
	Sack *Selective
	// INT, on feedback, is what switches wrote into the packet that caused it, where the network does
	// that; a receiver leaves it alone. It is valid as long as the packet is.
	INT []congestion.Hop
}

// A Selective is what a selective acknowledgement tells beside Packet.Expected: the fields of STrack's
// (Le et al., figure 7).
type Selective struct {
	// Bitmap has a bit for each packet from Base on, a multiple of 64, that has been received. Bits
	// below Expected mean nothing.
	Bitmap uint64
	Base   uint32
	// Beyond is how many packets after Expected have been received (OOO).
	Beyond uint32
	// Received is the payload received so far, duplicates not counted.
	Received units.Bytes
	// Probe is set on the answer to a probe.
	Probe bool
}

// Replies collects what a receiver answers to one packet.
type Replies struct {
	n    int
	p    [2]Packet
	sack [2]Selective
}

// Reset empties r.
func (r *Replies) Reset() { r.n = 0 }

// Add makes room for one more reply, at most two, and returns it zeroed.
func (r *Replies) Add() *Packet {
	p := &r.p[r.n]
	r.n++
	*p = Packet{}
	return p
}

// AddSack is Add for a selective acknowledgement.
func (r *Replies) AddSack() *Packet {
	s := &r.sack[r.n]
	*s = Selective{}
	p := r.Add()
	p.Kind, p.Sack = Sack, s
	return p
}

// Len is the number of replies.
func (r *Replies) Len() int { return r.n }

// At returns a reply.
func (r *Replies) At(i int) *Packet { return &r.p[i] }

// A Sender is the sending end of one message.
type Sender interface {
	// Transmit fills p with the packet to send at now; false: there is none until the next OnPacket
	// or OnTimer. The driver calls it when the wire is free and the pace allows a packet.
	Transmit(now units.Instant, p *Packet) bool
	// Pace is the rate at which packets may start, in bytes on the wire; 0: no limit.
	Pace(now units.Instant) units.Rate
	// OnPacket takes feedback. It doesn't keep p.
	OnPacket(now units.Instant, p *Packet)
	// OnTimer is called at Next, or later. It must move Next beyond now.
	OnTimer(now units.Instant)
	// Next is when OnTimer wants to be called; units.Never when no timer runs. It may move with each
	// other call.
	Next() units.Instant
	// Done reports whether all has been acknowledged.
	Done() bool
}

// A Repacer is a Sender whose waiting packet starts as the pace of each moment asks, so long after the one before as that packet takes
// at it. A driver that sees none lets the pace at the start of a packet say when the next may start.
type Repacer interface {
	// Repace returns Pace, and when that will change by itself, units.Never if it won't; false: this sender is none after all. The
	// driver asks again then, and after each OnPacket and OnTimer.
	Repace(now units.Instant) (rate units.Rate, change units.Instant, ok bool)
}

// Counts are what a sender has done beside sending each packet once.
type Counts struct{ Repeated, Timeouts uint32 }

// A Counter is a Sender that counts.
type Counter interface{ Counts() Counts }

// An Acker is a Sender that tells how far it has got.
type Acker interface {
	// Acked is the number before which all packets have been acknowledged.
	Acked() uint32
}

// A Poster is the sending end of a connection, which carries messages one behind the other under one congestion control. It begins each
// with the rate, the window and the knowledge of paths that the one before has left.
type Poster interface {
	Sender
	Acker
	// Post adds a message of at least a byte behind the others. Its packets begin behind theirs; it returns the number behind its last.
	Post(size units.Bytes) (end uint32)
}

// A Taker is the receiving end of that. A packet with Last ends a message.
type Taker interface {
	Receiver
	// Taken is the number before which all packets have arrived.
	Taken() uint32
}

// A Receiver is the receiving end of one message.
type Receiver interface {
	// OnPacket takes a packet and adds the answers to out.
	OnPacket(now units.Instant, p *Packet, out *Replies)
	// Complete reports whether all of the message has arrived.
	Complete() bool
}

// A Warmer is an end that reads, for Warm, the memory that its next call will need, and changes nothing. Who drives thousands of ends
// has those of the next packets read together, where each would wait for memory in its turn. What Warm returns only keeps
// compilers from leaving the reads out.
type Warmer interface {
	Warm() uint32
}

// A Message is what a transport is asked to carry.
type Message struct {
	Size units.Bytes // at least 1
	// MTU is the largest payload of a packet.
	MTU units.Bytes
	// LineRate and BaseRTT are those of the path without queues.
	LineRate units.Rate
	BaseRTT  units.Duration
	Hops     int
	// Open asks for a connection that lives on over messages: a Poster and a Taker, with no message yet. Size is then that of the first.
	Open bool
}

// Packets is how many packets the message takes.
func (m *Message) Packets() uint32 { return uint32((m.Size + m.MTU - 1) / m.MTU) }

// Payload is the size of packet psn, less than the MTU only for the last.
func (m *Message) Payload(psn uint32) uint16 {
	return uint16(min(m.MTU, m.Size-units.Bytes(psn)*m.MTU))
}

// A Factory makes both ends of a message.
type Factory func(m Message) (Sender, Receiver)
