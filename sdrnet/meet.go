// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Two ends meet over an oob connection in two exchanges: a hello each, which says what must be known
// before queue pairs are made, and the connection infos of both lanes. From then on the oob connection
// carries a Listener's word that it has admitted who dialled, and the last message of each lane when it closes.
//
//	hello  "SDRN" | version 1 | flags 1 | MTU 2 | buffer size 4 | private data        network byte order
//	infos  length 4 | info of lane 0 | info of lane 1
const (
	helloMagic   = 0x5344524e // "SDRN"
	helloVersion = 1
	helloSize    = 12
	// flagKernel: packets to this end must go to UDP port 4791, because its device knows no other,
	// and must come from there.
	flagKernel = 1
	// flagAdmission: this end says that it has admitted its peer when it listens, and waits for that when it dials. Where the other
	// end is older, neither happens.
	flagAdmission = 2
)

// A hello is what an end says first.
type hello struct {
	kernel bool
	// admission says that the end's version has flagAdmission, as this one has.
	admission bool
	mtu       units.Bytes
	buffer    units.Bytes
	// private is Config.PrivateData.
	private []byte
}

func (h hello) encode() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, helloSize+len(h.private)), helloMagic)
	flags := byte(0)
	if h.kernel {
		flags |= flagKernel
	}
	if h.admission {
		flags |= flagAdmission
	}
	b = append(b, helloVersion, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(h.mtu))
	b = binary.BigEndian.AppendUint32(b, uint32(h.buffer))
	return append(b, h.private...)
}

var errNoHello = fmt.Errorf("%w: the peer speaks sdr, but not sdrnet: both ends must use this package", sdr.ErrMismatch)

func decodeHello(b []byte) (hello, error) {
	if len(b) < helloSize || binary.BigEndian.Uint32(b) != helloMagic {
		return hello{}, errNoHello
	}
	if b[4] != helloVersion {
		return hello{}, fmt.Errorf("%w: the peer has version %d of sdrnet's protocol, this end %d: install the same release at both ends",
			sdr.ErrMismatch, b[4], helloVersion)
	}
	h := hello{
		kernel:    b[5]&flagKernel != 0,
		admission: b[5]&flagAdmission != 0,
		mtu:       units.Bytes(binary.BigEndian.Uint16(b[6:])),
		buffer:    units.Bytes(binary.BigEndian.Uint32(b[8:])),
		private:   b[helloSize:],
	}
	if n := units.Bytes(len(h.private)); n > maxPrivateData {
		return hello{}, fmt.Errorf("%w: the peer has %d bytes of private data, and %d are allowed", sdr.ErrMismatch, n, maxPrivateData)
	}
	// Devices have 256 to 4096, powers of two; connecting with anything else would fail without a reason.
	if h.mtu < 256 || h.mtu&(h.mtu-1) != 0 || h.buffer < minBufferSize || h.buffer > maxBufferSize {
		return hello{}, fmt.Errorf("%w: the peer announces an MTU of %d and buffers of %d bytes", sdr.ErrMismatch, h.mtu, h.buffer)
	}
	return h, nil
}

func encodeInfos(infos [lanes][]byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(infos[0])))
	b = append(b, infos[0]...)
	return append(b, infos[1]...)
}

func decodeInfos(b []byte) (infos [lanes][]byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.BigEndian.Uint32(b)) {
		return infos, fmt.Errorf("%w: the peer's infos are cut", sdr.ErrMismatch)
	}
	n := binary.BigEndian.Uint32(b)
	return [lanes][]byte{b[4 : 4+n], b[4+n:]}, nil
}

// The lanes of a Conn, each a connection of package reliability.
const (
	messageLane = iota // Send, Recv, Stream; of files, all but the bytes
	memoryLane         // SendMemory, RecvMemory, SendFrom, RecvTo; of files, the bytes
	lanes
)

// admissionWord is the message by which a Listener says that it has admitted the peer: its one byte is no lane's number.
const admissionWord = 0xff

// A session shares one oob connection between the lanes: a message begins with its lane's number.
type session struct {
	s    *oob.Conn
	lane [lanes]laneSession
	// admitted is closed when the peer says that it has admitted this end; nil where the two don't say so.
	admitted chan struct{}

	mu     sync.Mutex
	open   int    // lanes that have not closed; +checklocks:mu
	reason string // what the peer is told when the last one closes; +checklocks:mu
	err    error  // why s ended; set before done is closed
	done   chan struct{}
}

// A laneSession is a lane's part of a session: a reliability.Session.
type laneSession struct {
	session *session
	number  byte
	peer    []byte      // the info of the peer's lane
	in      chan []byte // what the peer's lane says when it closes, which it does once
	closed  bool        // guarded by session.mu
}

// newSession begins when both have said what they are. From here on the lanes take what comes, so that the peer is no guest any more.
// With admission the end that listens says when it has admitted the other.
func newSession(s *oob.Conn, peers [lanes][]byte, admission bool) *session {
	s.HoldBack() // run always receives, and nothing is exchanged any more
	s.Welcome()
	m := &session{s: s, open: lanes, done: make(chan struct{})}
	for i := range m.lane {
		m.lane[i] = laneSession{session: m, number: byte(i), peer: peers[i], in: make(chan []byte, 1)}
	}
	if admission {
		m.admitted = make(chan struct{})
	}
	go m.run()
	return m
}

// run hands messages to their lanes until the oob connection ends.
func (m *session) run() {
	var heard [lanes]bool
	admission := m.admitted // nil once it was said
	for {
		b, err := m.s.Recv(context.Background())
		if err == nil && admission != nil && len(b) == 1 && b[0] == admissionWord {
			close(admission)
			admission = nil
			continue
		}
		if err == nil && (len(b) == 0 || int(b[0]) >= lanes) {
			err = fmt.Errorf("%w: a message for no lane", sdr.ErrMismatch)
			_ = m.s.CloseWithReason(err.Error())
		}
		if err != nil {
			m.err = err
			close(m.done)
			return
		}
		if lane := b[0]; !heard[lane] { // what comes later, as it may where the peer aborts, says nothing new
			heard[lane] = true
			m.lane[lane].in <- b[1:]
		}
	}
}

// noAdmission is how long a Dial without a deadline waits for its Listener's word.
const noAdmission = oob.DefaultTimeout

// admit tells the peer that its connection stands, and that no other can get its place any more. A peer can't hold this up, for it has all that was
// said before, so that the socket takes a byte at once; a busy host may, and then Send has its usual time: to be turned away is for good.
func (m *session) admit(ctx context.Context) error {
	if m.admitted == nil {
		return nil
	}
	return m.s.Send(ctx, []byte{admissionWord})
}

// awaitAdmission waits for the peer's admit.
func (m *session) awaitAdmission(ctx context.Context) error {
	if m.admitted == nil {
		return nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, noAdmission)
		defer cancel()
	}
	select {
	case <-m.admitted:
		return nil
	case <-m.done:
	case <-ctx.Done():
	}
	select {
	case <-m.admitted: // the peer may have closed right after it
		return nil
	case <-m.done:
		return m.left()
	default:
		return &operr.Error{Op: "await", Object: "the Listener's admission", Err: context.Cause(ctx), Fix: "see whether the peer's program hangs, or its host is busy"}
	}
}

// left is what the end of the session means to a Dial that hasn't returned.
func (m *session) left() error {
	var told interface{ Rejected() bool }
	if errors.Is(m.err, oob.ErrPeerClosed) || errors.As(m.err, &told) && told.Rejected() {
		return fmt.Errorf("%w: %w", sdr.ErrPeerClosed, m.err)
	}
	return fmt.Errorf("%w: %w", sdr.ErrPeerDead, m.err)
}

var errSecondExchange = errors.New("the infos were exchanged already")

// Exchange returns the peer's info, which came with that of the other lane. The argument went the same way.
func (l *laneSession) Exchange(context.Context, []byte) ([]byte, error) {
	if l.peer == nil {
		return nil, errSecondExchange
	}
	peer := l.peer
	l.peer = nil
	return peer, nil
}

// Send sends one message to the peer's lane.
func (l *laneSession) Send(ctx context.Context, b []byte) error {
	return l.session.s.Send(ctx, append([]byte{l.number}, b...))
}

// Recv returns the next message, also when the connection has ended since it arrived.
func (l *laneSession) Recv(ctx context.Context) ([]byte, error) {
	select {
	case b := <-l.in:
		return b, nil
	default:
	}
	select {
	case b := <-l.in:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.session.done:
	}
	select {
	case b := <-l.in:
		return b, nil
	default:
		return nil, l.session.err
	}
}

// SetDeadHostLimit bounds the silence of the peer's host: package reliability gives each session QPConfig.Silence. The
// lanes' connection is one, and so is their Silence.
func (l *laneSession) SetDeadHostLimit(d units.Duration) error {
	return l.session.s.SetDeadHostLimit(d)
}

// giveReason says what the peer is to be told when the session ends. The first counts.
func (m *session) giveReason(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reason = cmp.Or(m.reason, reason)
}

// abortTime bounds what abort waits for a peer that takes nothing.
const abortTime = 300 * time.Millisecond

// abort ends the session before its lanes close. The peer gets the last message of each, by which it knows what this end has received,
// and then the reason.
func (m *session) abort(last [lanes][]byte, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), abortTime)
	defer cancel()
	for i := range m.lane {
		_ = m.lane[i].Send(ctx, last[i]) // if that fails, so does what follows, and the lane notices
	}
	_ = m.s.CloseWithReason(reason)
}

// Close ends the session with the last lane.
func (l *laneSession) Close() error {
	m := l.session
	m.mu.Lock()
	last := !l.closed && m.open == 1
	if !l.closed {
		l.closed = true
		m.open--
	}
	reason := m.reason
	m.mu.Unlock()
	var err error
	switch {
	case !last:
		return nil
	case reason != "":
		err = m.s.CloseWithReason(reason)
	default:
		err = m.s.Close()
	}
	<-m.done
	return err
}
