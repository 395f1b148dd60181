// SPDX-License-Identifier: Apache-2.0

// Package scheme defines what a reliability scheme is: two state machines, one
// on each side of a transfer, with an explicit clock and no I/O.
//
// A scheme handles the numbers of repair units, never their bytes. It is given
// what was sent, what the bitmap shows and what the peer's half said, and
// answers with what to send, what to send the peer, what to code and when to be
// called again. reliability.Conn drives it over an sdr.QP, in real time and,
// over backend/sim, in virtual time: the same code, the same decisions.
//
// # Numbers
//
// A transfer of Length bytes has data units 0 … Units−1 of UnitBytes each, the
// last perhaps shorter, whatever messages carry them. Parity units are counted
// apart from 0 and marked with the Parity bit.
//
// # Concurrency
//
// All calls on the halves of one Conn are made under that Conn's lock, one at a
// time. A core starts no goroutine and reads no clock: now is an argument.
package scheme

import "github.com/sdr-rdma/go-sdr/units"

// A Unit is the number of a repair unit within its transfer.
type Unit uint32

const (
	// Parity marks the number of a parity unit.
	Parity Unit = 1 << 31
	// Probe marks the number of a probe: a packet without payload, which only shows how far
	// its channel has got. Probe numbers run from 0 to Probes−1 and are used again in rotation.
	Probe Unit = 1 << 30
	// Probes is the number of distinct probes.
	Probes = 16
)

// IsData reports whether u is neither parity nor a probe.
func (u Unit) IsData() bool { return u&(Parity|Probe) == 0 }

// IsParity reports whether u is a parity unit.
func (u Unit) IsParity() bool { return u&Parity != 0 }

// IsProbe reports whether u is a probe.
func (u Unit) IsProbe() bool { return u&(Parity|Probe) == Probe }

// Index is the number without its mark.
func (u Unit) Index() int { return int(u &^ (Parity | Probe)) }

// A Transfer is what both halves know of the transfer that they serve.
type Transfer struct {
	// ID counts the transfers of a direction from 0.
	ID uint64
	// Length is the user data in bytes; Units = ⌈Length/UnitBytes⌉, at
	// least 1: a transfer of no bytes never reaches a scheme.
	Length    units.Bytes
	UnitBytes units.Bytes
	Units     int
	// Params is what the sender's half announced in START, for the
	// receiver's half; nil for the sender's.
	Params []byte
}

// UnitLen is the length of data unit u in bytes.
func (t *Transfer) UnitLen(u Unit) units.Bytes {
	if u.IsData() && u.Index() == t.Units-1 {
		return t.Length - units.Bytes(t.Units-1)*t.UnitBytes
	}
	return t.UnitBytes
}

// Env is the connection as Conn sees it. A core keeps the pointer; Conn updates the
// fields before it calls the core, at most once in each of its rounds.
type Env struct {
	// Channels is the number of channels, at least 1.
	Channels int
	// RTT is the smoothed round-trip time and RTTVar its mean deviation;
	// MinRTT is the smallest of the last half to whole minute. RTT is 0 until the first sample.
	RTT, RTTVar, MinRTT units.Duration
	// Answered is when the newest ping was sent that the peer has answered, at least each 250 ms while the path carries them: what
	// has backed off since it carried nothing need wait no longer (RetryAt). 0 before the first answer.
	Answered units.Instant
	// Rate is the rate of user data at which Conn paces, 0 when it doesn't.
	Rate units.Rate
	// AckInterval is how often a receiver should report while data arrives.
	AckInterval units.Duration
	// RepeatInterval is how often it should at most say again what it has said, while it knows of nothing that is missing: on hosts each
	// frame takes a wake-up of both ends. 0: AckInterval.
	RepeatInterval units.Duration
	// MaxFrame is the most bytes of one control frame. A longer one ends the transfer with sdr.ErrTooLong, at both ends.
	MaxFrame int
	// DataLimit is the number of data units, from 0 on, that the receiver has
	// given buffers for: first transmissions stay below it. Sender only.
	DataLimit int
	// ParityLimit is such a limit for parity units, counted from 0 over the
	// transfer. Sender only.
	ParityLimit int
	// Waiting is how many other transfers have something to send that the rate holds back: they wait for what this one sends. Sender
	// only.
	Waiting int
	// Contention is by how much all together who wait for the processor, as this one's many connections may, wait longer for each more
	// packet. 0: nobody waits. Sender only.
	Contention units.Duration
	// ECN says that within the last round trip the sender was notified that packets
	// met a queue that marks. Sender only, and only on devices that report it.
	ECN bool
	// Marks says the same of the last 10 s: a queue on the path marks, and so drops little. Sender only, and only on devices that report it.
	Marks bool
	// Full says that the congestion control has found a queue full within the last round trips, or takes what gets
	// lost now for that. Sender only.
	Full bool
	// Trims says that a switch on the path is known to trim: it has done so on this connection, or all were configured to. What gets
	// lost without that was lost to something else than congestion. Sender only, and only on devices that report it.
	Trims bool
}

// UnitTime is how long a full unit takes at the paced rate, 0 when not paced.
func (e *Env) UnitTime(t *Transfer) units.Duration { return e.Rate.Time(t.UnitBytes) }

// Contended reports whether others wait for the processor for so long that a packet which nothing but a loss of another makes useful does more
// harm: it saves a round trip where one in a hundred gets lost, or fewer.
func (e *Env) Contended() bool { return e.Contention > e.RTT/100 }

// answeredPause is how often the peer is asked.
const answeredPause = 250 * units.Millisecond

// RetryAt is when what was said in vain at last is said again, where back-off has it due: once a ping that was sent since has been
// answered, not later than 250 ms after last, or after the pause without back-off if that is longer. A path that was dark for seconds is then
// in use again as soon as a ping finds out.
func (e *Env) RetryAt(due, last units.Instant, pause units.Duration) units.Instant {
	if e.Answered > last {
		return min(due, last.Add(max(pause, answeredPause)))
	}
	return due
}

// A Scheme makes the two halves for each transfer of one Conn. It may remember,
// for the Conn, what earlier transfers taught; it is used by that Conn only.
type Scheme interface {
	// Name is the scheme's name: none, sr, sr-nack, ec-xor, ec-mds, adaptive, strack, strack-p
	// or the user's own, of at most 32 bytes. Both sides must use the same.
	Name() string
	// ParityUnits is how many parity units Recv should offer buffers for
	// before it knows a transfer's length, when its buffer has n data units.
	ParityUnits(n int) int
	// NewSender is called when the receiver has posted a buffer. An error ends the transfer.
	NewSender(Transfer, *Env) (Sender, error)
	// NewReceiver is called when START has arrived; it must refuse
	// parameters that make no sense, which come from the network: an error ends the transfer at both ends.
	NewReceiver(Transfer, *Env) (Receiver, error)
}

// A Partial scheme's transfers may end well with units missing: it repeats
// nothing, or not everything.
type Partial interface {
	Scheme
	// Partial has no effect; it marks the scheme.
	Partial()
}

// A Sender is the sending half.
type Sender interface {
	// Params is what the receiving half must know; it travels in START and
	// must not change. At most 64 bytes.
	Params() []byte
	// OnControl handles a frame of the receiving half. Frames may be lost,
	// repeated and reordered, and a hostile peer may send any bytes: an error
	// ends the transfer, so it is for frames that no loss can explain.
	OnControl(now units.Instant, frame []byte) error
	// OnSent reports transmissions, each once, when it has been injected, in order. Those
	// of a message that the receiver has completed meanwhile are dropped, and not reported.
	OnSent(now units.Instant, sent []Sent)
	// OnJob reports that a coding job is done.
	OnJob(now units.Instant, id uint32)
	// Poll asks what to do. next is when to call again at the latest, units.Never if only an event has anything to do; Conn
	// also calls after every event. A core that asks for nothing and wants to be called at a time that isn't after now, such as 0, is called a
	// millisecond later, in virtual time a microsecond: at once would be for ever.
	Poll(now units.Instant, out *Output) (next units.Instant, err error)
	// Outstanding is the number of data and parity units sent and neither
	// reported received nor declared lost: what the window limits.
	Outstanding() int
	// Stats are what this half has counted of the transfer so far.
	Stats() Stats
}

// A CompletionObserver is a Sender that wants to know when the receiver has reported that
// every unit is in place. It may do so before its half has reported the last ones; no
// call but Stats follows. A transfer that fails ends without it.
type CompletionObserver interface {
	OnCompleted(now units.Instant)
}

// A Recycler is a Sender or Receiver that wants to know when Conn has no more use for it: no call follows, so its Scheme may
// make the half of another transfer in its memory. Most of what a small transfer costs is memory otherwise. One whose
// queue pair fails is not recycled.
type Recycler interface {
	Recycle()
}

// A TrimAware is a Sender that wants to know of units that a switch has trimmed: cut to their headers, because its queue was
// full. They are lost for certain, long before any other sign of it, and to congestion, of which Conn informs its congestion
// control. So they are to be repeated at once, and teach nothing about the drop rate that parity is for.
type TrimAware interface {
	// OnTrimmed reports the latest transmission of a unit, on a channel. The report comes from the network, and may come
	// twice or be forged: it may cost a repeat of a unit that is outstanding, and no more.
	OnTrimmed(now units.Instant, u Unit, channel int)
}

// A LossReporter is a Sender that says how many units it has declared lost so far, also of those
// that it doesn't repeat because a code will recover them. Of other Senders the repeats count. Conn
// informs its congestion control.
type LossReporter interface {
	Lost() int
}

// A ParityCounter is a Sender that sends parity, and says how many parity units Outstanding counts. Of other Senders it counts none.
type ParityCounter interface {
	OutstandingParity() int
}

// A Guesser is a Sender that waits for proof that a unit is lost, packets that were sent behind it and have
// arrived, and says of how many it had none in time so far. They count as losses, too, but where hosts are
// busy most of them are none, so they are no sign of a full queue.
type Guesser interface {
	Guessed() int
}

// A BlackoutReporter is a Sender that says how many of the units that it has declared lost so far a path took that carried
// nothing for a while. They are no sign of its rate.
type BlackoutReporter interface {
	BlackedOut() int
}

// A ChannelTimer is a Sender that measures the round trip of each channel. EvenRTT is the average of their least ones where they differ,
// 0 where they don't: what a window that all channels share takes at least to come back, while no queue is there.
type ChannelTimer interface {
	EvenRTT() units.Duration
}

// An AnswerTimer is a Sender that knows of single packets when they left: Answered is the mean of the round trips of those that the last
// frame has answered, 0 if it answered none. Without it a round trip is told by what is in flight, where a packet that is lost or late
// counts until it is declared lost, which looks like a queue. Late is how many units have come so far that it had declared lost.
type AnswerTimer interface {
	Answered() units.Duration
	Late() int
}

// A Receiver is the receiving half.
type Receiver interface {
	// OnControl handles a frame of the sending half, as Sender.OnControl does one of this half.
	OnControl(now units.Instant, frame []byte) error
	// OnJob reports that a coding job is done.
	OnJob(now units.Instant, id uint32)
	// Poll asks what to do, and returns when to call again as a Sender's. It is called sooner once something has come for the
	// transfer, after the calls above and when Env has changed, and may be at any time. done: every data unit is in place. Conn then
	// completes the messages, of which the sender gets COMPLETED; the core is not called
	// again.
	Poll(now units.Instant, v View, out *Output) (next units.Instant, done bool, err error)
	// Stats are what this half has counted of the transfer so far. Of the units in place Conn takes all but Recovered for units
	// that have come over the network, which congestion controls reckon with.
	Stats() Stats
}

// A ReliableReceiver is a Receiver whose sending half has frames that must arrive (Output.Reliable).
type ReliableReceiver interface {
	Receiver
	// OnReliable handles such a frame: each once, in the order in which they were sent. A hostile
	// peer may send any bytes: an error ends the transfer.
	OnReliable(now units.Instant, frame []byte) error
}

// A View is the receiver's live bitmap over the whole transfer.
type View interface {
	// Has reports whether all bytes of unit u, data or parity, are in place.
	Has(u Unit) bool
	// NextMissing returns the first data unit ≥ from that isn't in place, or
	// the number of units when there is none.
	NextMissing(from int) int
	// NextPresent returns the first data unit in [from, to) that is in place,
	// or to when there is none. Calling it and NextMissing in turn walks the
	// runs of a window without asking for each unit.
	NextPresent(from, to int) int
	// Mark returns the last completion on a channel. Load marks before
	// looking at units: whatever was sent on the channel before the marked
	// packet has then either set its bit or been lost.
	Mark(channel int) Mark
	// First is when the first packet of the transfer was noticed, or
	// units.Never.
	First() units.Instant
	// Home is the channel that Conn gives first transmissions of a data unit that is not
	// in place, unless the scheme names another.
	Home(u Unit) int
}

// A Mark says how far a channel has got.
type Mark struct {
	// Unit is the unit of the last packet, or a probe.
	Unit Unit
	// Count counts the packets of this transfer on the channel. It never wraps;
	// 0 with Valid unset means that none has arrived.
	Count uint64
	// Marked counts those of them that met a queue that marks (ECN), on devices that report it.
	Marked uint64
	Valid  bool
}

// Sent reports one transmission.
type Sent struct {
	Unit    Unit
	Channel int
}

// Output is filled by Poll. Conn owns the slices: cores append within their
// capacity.
type Output struct {
	// Budget is how many units may be sent now (pacing, send queue).
	Budget int
	// Window is how many units may be outstanding; a repeat is not bound by it.
	Window int
	// Sends are the transmissions, in order.
	Sends []Send
	// Frame is one control frame for the peer's half, if not empty; Conn
	// polls again for the next. It may get lost.
	Frame []byte
	// Reliable, from a sending half, is a frame that must arrive, if not empty, of at most
	// Env.MaxFrame bytes; Conn polls again for the next. The receiving half is then a
	// ReliableReceiver.
	Reliable []byte
	// ReliableBusy says that the frame before is still waiting: the peer has yet to acknowledge
	// as much as is kept, or the transfer's START. None is taken now; Conn polls again when
	// one is.
	ReliableBusy bool
	// Jobs are coding jobs to start.
	Jobs []Job
	// ParityFree, at the receiver, says that parity units below it are not
	// needed any more, so that their buffers can be used again. No job that runs may read them.
	ParityFree int
}

// Reset empties o for the next Poll, keeping its memory.
func (o *Output) Reset() {
	o.Sends, o.Frame, o.Reliable, o.Jobs, o.ParityFree = o.Sends[:0], o.Frame[:0], o.Reliable[:0], o.Jobs[:0], 0
}

// HomeChannel asks Conn to use the channel on which the receiver counts a
// packet as a first transmission.
const HomeChannel = -1

// A Send is one transmission of a unit.
type Send struct {
	Unit Unit
	// Channel is HomeChannel, or a channel. First transmissions cost the receiver least on their home
	// channel; a scheme that chooses paths may send them on any.
	Channel int
	// Repeat marks what is not a first transmission, for the counters.
	Repeat bool
}

// JobKind is what a coding job does.
type JobKind uint8

// Kinds of jobs.
const (
	// Encode computes parity rows at the sender.
	Encode JobKind = iota + 1
	// Decode computes missing data units at the receiver.
	Decode
)

// CodeKind names an erasure code.
type CodeKind uint8

// Codes.
const (
	// XOR: row i is the XOR of the data units j with j mod M = i.
	XOR CodeKind = iota + 1
	// MDS: rows of a Cauchy matrix over GF(2^8); any K of K+rows units
	// recover the data. Rows 0 … 255−K exist.
	MDS
)

// A Job is coding work on one group. Its slices belong to the core and stay
// unchanged until OnJob. All units are as long as the first data unit; shorter
// ones count as if padded with zeros.
type Job struct {
	ID   uint32
	Kind JobKind
	Code CodeKind
	// M is the number of rows that the XOR code has.
	M int
	// Data are the group's data units in order.
	Data []Unit
	// Rows and Parity are row numbers and the parity units that hold them:
	// to be computed (Encode) or to decode with (Decode, all in place).
	Rows   []int
	Parity []Unit
	// Missing are the positions in Data to compute (Decode).
	Missing []int
}

// Stats counts units; the fields add up over a Conn's transfers.
type Stats struct {
	// Sent counts all transmissions of data and parity units, Retransmitted
	// those of data after the first, Spurious those of Retransmitted that
	// proved unnecessary, Parity the parity units, each once: one that is sent again, because a switch
	// trimmed it, counts in Sent alone.
	Sent, Retransmitted, Spurious, Parity uint64
	// Losses counts the losses that were proved, by what they were.
	Losses Losses
	// Recovered counts data units that decoding computed.
	Recovered uint64
	// Timeouts counts expired timers, Fallbacks groups or submessages that
	// decoding could not recover in time.
	Timeouts, Fallbacks uint64
	// Frames and FrameBytes count control frames made.
	Frames, FrameBytes uint64
	// Explain says in words what the scheme chose and why, if it chooses.
	Explain string
	// K and M are the code in use, 0 where none is.
	K, M int
}

// Losses counts units that were proved lost, because packets sent behind them arrived, by what the sender took
// them for: random loss, which is for coding and repeats; losses of a full queue, which are for the
// rate; and what a path took that carried nothing for a while. Disproved are those that were
// taken for lost and arrived after all, and that the others don't count; of units that may have been decoded nobody knows that.
// docs/congestion.md has the rule and how often it errs.
type Losses struct{ Random, Queue, Blackout, Disproved uint64 }

// Add adds the counters of o.
func (l *Losses) Add(o Losses) {
	l.Random += o.Random
	l.Queue += o.Queue
	l.Blackout += o.Blackout
	l.Disproved += o.Disproved
}

// Add adds the counters of o and takes its choices.
func (s *Stats) Add(o Stats) {
	s.Sent += o.Sent
	s.Retransmitted += o.Retransmitted
	s.Spurious += o.Spurious
	s.Parity += o.Parity
	s.Losses.Add(o.Losses)
	s.Recovered += o.Recovered
	s.Timeouts += o.Timeouts
	s.Fallbacks += o.Fallbacks
	s.Frames += o.Frames
	s.FrameBytes += o.FrameBytes
	switch {
	case o.Explain != "": // a choice, which may be to use no code
		s.Explain, s.K, s.M = o.Explain, o.K, o.M
	case s.Explain == "" && o.K != 0:
		s.K, s.M = o.K, o.M
	}
}
