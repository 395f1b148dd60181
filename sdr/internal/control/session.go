// SPDX-License-Identifier: Apache-2.0

// Package control is the protocol core of the sdr control channel: what is said
// to the peer, how often, and what the round trip is. It has no I/O, no
// goroutine and no clock. Its rules and encodings are in docs/wire.md.
//
// State frames (CTS, START, END, ABORT, COMPLETED, RELIABLE) are put into the session once
// and repeated until acknowledged: some of them first as spaced copies, because
// losing them would cost a round trip. An acknowledgement lists just what was
// received, so the receiver of a frame need not remember what it acknowledged.
package control

import (
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// Limits, each with what it defends.
const (
	// maxAcks bounds the acknowledgements that wait; the peer repeats a frame
	// whose acknowledgement was dropped here.
	maxAcks = 512
	// maxQueued bounds SCHEME frames that wait for the next datagram; they
	// are unreliable, so the newest replace the oldest.
	maxQueued = 64
	// maxPings bounds pings in flight whose answer would be a sample: at a quarter of a second from one to the next, those of 16 s, which
	// is as long as a round trip may be that is measured.
	maxPings = 64
	// maxPongs bounds pings of the peer that wait for an answer.
	maxPongs = 16
	// pingsPerSilence is how many pings, or answers to them, have to get lost for a peer to be thought dead.
	pingsPerSilence = 8
	// maxPingPause is the longest pause between pings while anything is under way.
	maxPingPause = MaxBackoff / 4
	// dormantAfter is longer than who sends one thing after another lets the peer wait.
	dormantAfter = units.Second
	// MaxBackoff is the longest pause between repetitions.
	MaxBackoff = units.Second
	// InitialRTT is the round trip that is assumed before the first sample.
	InitialRTT = 20 * units.Millisecond
	// A frame that a transfer waits for is repeated in trains: first of firstTrain frames, then of
	// trainLength. Of bursts of losses with a mean of 32 frames one in three thousand outlasts the
	// first, which takes eight round trips.
	trainLength = 16
	firstTrain  = 256
	// perRTT is how many frames of a train there are in a round trip, minTrainSpacing
	// the least pause between them.
	perRTT          = 32
	minTrainSpacing = 100 * units.Microsecond
	// A train that begins before any ping has been answered has unmeasuredTrain frames. The link may be slow, and then what was sent keeps
	// the answer from coming: so after denseUnanswered frames there are only perUnanswered in as long as the first ping has been away.
	unmeasuredTrain = 64
	denseUnanswered = 40
	perUnanswered   = 4
	// minCopySpacing is the least pause between spaced copies. maxCopySpacing bounds how long they
	// wait for an acknowledgement that would make them needless.
	minCopySpacing = 20 * units.Microsecond
	maxCopySpacing = 500 * units.Microsecond
)

// An ackRange is frames of a type, with consecutive IDs, to be acknowledged.
type ackRange struct {
	t            wire.Type
	first, count uint64
}

// A ping is one that was sent; its number is 0 once it has been answered.
type ping struct {
	number uint64
	sent   units.Instant
}

// Stats counts the session's traffic.
type Stats struct {
	DatagramsSent, DatagramsReceived uint64
	BytesSent, BytesReceived         uint64
	// Repeated counts state frames sent again after their copies.
	Repeated uint64
	// Malformed counts datagrams that could not be read, Violations frames that
	// claimed what can't be.
	Malformed, Violations uint64
	// Duplicates counts frames that must arrive and had arrived before.
	Duplicates uint64
}

// Session is one side of a connection's control channel. It is used by one goroutine at a time.
type Session struct {
	peerID   uint64                        // the connection id that the peer chose
	number   uint32                        // of the latest datagram sent
	maxLen   int                           // of a datagram, in bytes
	boxes    [wire.TypeReliable + 1]outbox // by type, those of state
	reliable sequence
	acks     []ackRange     // that wait for a datagram
	ackAt    units.Instant  // when they go at the latest
	queued   [][]byte       // encoded SCHEME frames that wait for a datagram
	spare    [][]byte       // memory for more of them
	pings    [maxPings]ping // the latest, by number modulo length
	pingNo   uint64         // of the latest
	pongs    []uint64       // numbers of the peer's pings that wait for an answer
	time     timing

	window        uint64 // ours, in bytes; 0: not told
	peerWindow    uint64 // the peer's, once hasPeerWindow
	peerNumber    uint32 // the newest of the peer's datagrams
	hasPeerWindow bool

	nextPing     units.Instant  // while anything is pending
	pingPause    units.Duration // from the latest to the next
	dormantPause units.Duration // the longest of these while dormant
	activity     Activity
	dormantSince units.Instant
	excused      bool // since lastReceived
	lastReceived units.Instant
	answered     units.Instant // when the newest ping was sent that has been answered
	Stats        Stats
}

// NewSession makes a session that writes peerID, the number that the peer chose,
// into its datagrams, and keeps them within maxLen bytes.
func NewSession(now units.Instant, peerID uint64, maxLen int) *Session {
	return &Session{peerID: peerID, maxLen: maxLen, lastReceived: now, nextPing: now, dormantPause: maxPingPause, time: timing{asked: units.Never}}
}

// Silence has so many pings go while work is pending that a peer which lives isn't silent for so long.
func (s *Session) Silence(limit units.Duration) {
	s.dormantPause = max(limit/pingsPerSilence, units.Millisecond)
}

// mostPause is the longest pause between pings at now.
func (s *Session) mostPause(now units.Instant) units.Duration {
	if s.sleeps(now) {
		return s.dormantPause
	}
	return s.activePause()
}

// activePause is that while anything is under way.
func (s *Session) activePause() units.Duration { return min(maxPingPause, s.dormantPause) }

// An Activity says how much is pending.
type Activity uint8

const (
	// Idle: nothing, and nobody asks whether the peer lives.
	Idle Activity = iota
	// Dormant: only what the peer hasn't begun, for which it may take hours. After a second of that it is asked no more often than it takes to notice
	// its silence.
	Dormant
	// Active: something is on its way, or repeated until the peer answers.
	Active
)

// MaxScheme is the longest SCHEME payload that fits a datagram.
func (s *Session) MaxScheme() int {
	return s.maxLen - wire.HeaderSize - 2*smallFrame - wire.SchemeOverhead
}

// smallFrame bounds an encoded WINDOW, and a PING, which go into a datagram before all else.
const smallFrame = 1 + 1 + 10

// Put makes f known to the peer: copies times at a short distance, then at
// growing intervals until acknowledged.
func (s *Session) Put(now units.Instant, f wire.Frame, copies int) {
	s.boxes[f.Type].put(now, f, copies, false)
}

// PutSoon is Put for what nobody waits for: it goes with the next datagram, and the first time at the latest when the
// session's time to hold back is over.
func (s *Session) PutSoon(now units.Instant, f wire.Frame, copies int) {
	s.boxes[f.Type].put(now.Add(s.time.hold), f, copies, s.time.hold > 0)
}

// SetContention says by how much all together who wait for the processor wait longer for each more datagram.
func (s *Session) SetContention(d units.Duration) { s.time.contention = d }

// HoldBack makes acknowledgements and what is PutSoon wait so long for something that they can travel with.
func (s *Session) HoldBack(d units.Duration) { s.time.hold = d }

// Again sends what the peer hasn't acknowledged once more, and then repeats it as if it had not been sent before: for a peer that couldn't
// know the session until now.
func (s *Session) Again(now units.Instant) {
	for _, t := range order {
		s.boxes[t].again(now)
	}
}

// Pending reports whether the frame is still unacknowledged.
func (s *Session) Pending(t wire.Type, id uint64) bool { return s.boxes[t].has(id) }

// Unacked is the number of unacknowledged state frames.
func (s *Session) Unacked() (n int) {
	for _, t := range order {
		n += s.boxes[t].live
	}
	return n
}

// UnackedOf is the number of unacknowledged frames of a type.
func (s *Session) UnackedOf(t wire.Type) int { return s.boxes[t].live }

// Ack acknowledges a received state frame with the next datagram. Only of RELIABLE frames is there a bounded
// number that may be unacknowledged, so it doesn't wait for one.
func (s *Session) Ack(t wire.Type, id uint64) {
	switch {
	case t == wire.TypeReliable:
		s.ackAt = s.lastReceived
	case len(s.acks) == 0:
		s.ackAt = s.lastReceived.Add(s.time.hold)
	}
	if n := len(s.acks); n > 0 {
		last := &s.acks[n-1]
		if last.t == t && id-last.first <= last.count {
			last.count = max(last.count, id-last.first+1)
			return
		}
	}
	if len(s.acks) < maxAcks {
		s.acks = append(s.acks, ackRange{t, id, 1})
	}
}

// Scheme queues bytes of a reliability core, at most MaxScheme, for the next datagram. They are
// sent once, and copied.
func (s *Session) Scheme(transfer uint64, toSender bool, number uint64, p []byte) {
	var b []byte
	if n := len(s.spare); n > 0 {
		b, s.spare = s.spare[n-1][:0], s.spare[:n-1]
	}
	f := wire.Frame{Type: wire.TypeScheme, ID: transfer, ToSender: toSender, Number: number, Bytes: p}
	b = f.Append(b)
	if len(s.queued) == maxQueued {
		s.spare = append(s.spare, s.queued[0])
		copy(s.queued, s.queued[1:])
		s.queued = s.queued[:maxQueued-1]
	}
	s.queued = append(s.queued, b)
}

// SetWindow is the receiver's free window in bytes; it travels in every datagram
// while it isn't zero.
func (s *Session) SetWindow(n uint64) { s.window = n }

// PeerWindow is the peer's window, from its newest datagram.
func (s *Session) PeerWindow() (n uint64, ok bool) { return s.peerWindow, s.hasPeerWindow }

// SetActivity says how much work is pending: if any is, the peer is asked for signs of life.
func (s *Session) SetActivity(now units.Instant, a Activity) {
	switch before := s.activity; {
	case before == Idle && a > Idle:
		s.watchAnew(now)
		s.excused = false
	case before == Dormant && a == Active:
		s.pingPause = min(s.pingPause, s.activePause())
		s.nextPing = min(s.nextPing, now.Add(s.activePause()))
	}
	if a == Dormant && s.activity != Dormant {
		s.dormantSince = now
	}
	s.activity = a
}

// sleeps reports whether the peer is to be asked seldom: nothing has been under way for a while, and it has not been silent for half as long as it may.
func (s *Session) sleeps(now units.Instant) bool {
	return s.activity == Dormant && now.Sub(s.dormantSince) >= dormantAfter && now.Sub(s.lastReceived) < pingsPerSilence/2*s.dormantPause
}

// Excuse begins the watch over the peer anew, because nobody could receive until now: the peer is asked whether it lives. It does so once
// and then reports false until a datagram arrives, so that an end that always comes too late finds out that its peer is dead, too.
func (s *Session) Excuse(now units.Instant) bool {
	if s.excused {
		return false
	}
	s.excused = true
	s.watchAnew(now)
	return true
}

func (s *Session) watchAnew(now units.Instant) { s.lastReceived, s.nextPing, s.pingPause = now, now, 0 }

// LastReceived is when the peer's last datagram arrived, or the watch over it began anew.
func (s *Session) LastReceived() units.Instant { return s.lastReceived }

// RTT returns the smoothed round trip, its variation and the smallest seen lately, all
// 0 before the first sample.
func (s *Session) RTT() (smoothed, variation, least units.Duration) {
	return s.time.srtt, s.time.rttvar, s.time.least.get()
}

// Answered is when the newest ping was sent that the peer has answered, 0 before the first.
func (s *Session) Answered() units.Instant { return s.answered }

// Receive reads the header of a datagram for this session. The frames are read
// with the returned reader, and each given to Handle first.
func (s *Session) Receive(now units.Instant, h wire.Header, frames []byte, size int) wire.Reader {
	s.lastReceived, s.excused = now, false
	s.Stats.DatagramsReceived++
	s.Stats.BytesReceived += uint64(size)
	if int32(h.Number-s.peerNumber) > 0 || !s.hasPeerWindow {
		s.peerNumber = h.Number
	}
	return wire.NewReader(frames)
}

// Handle handles the frames that concern only the session. It reports false for
// those that the caller must handle, and acknowledge with Ack.
func (s *Session) Handle(now units.Instant, h wire.Header, f *wire.Frame) bool {
	switch f.Type {
	case wire.TypeAck:
		if t := wire.Type(f.Code); t.IsState() {
			s.boxes[t].ack(f.ID, f.Count)
		} else {
			s.Stats.Violations++
		}
	case wire.TypePing:
		if len(s.pongs) < maxPongs {
			s.pongs = append(s.pongs, f.ID)
		}
	case wire.TypePong:
		p := &s.pings[f.ID%maxPings]
		if p.number == f.ID && f.ID != 0 {
			s.time.sample(now, now.Sub(p.sent))
			s.answered = max(s.answered, p.sent)
			p.number = 0
		}
	case wire.TypeWindow:
		if h.Number == s.peerNumber {
			s.peerWindow, s.hasPeerWindow = f.Length, true
		}
	default:
		return false
	}
	return true
}
