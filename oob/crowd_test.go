// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/heaptest"
	"github.com/sdr-rdma/go-sdr/units"
)

// crowd opens n connections to l from each of the given hosts of 127/8, and says hello on them or nothing.
func crowd(t *testing.T, l *Listener, n int, hello bool, hosts ...string) []*net.TCPConn {
	var all []*net.TCPConn
	for _, h := range hosts {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(h)}}
		for range n {
			nc, err := d.Dial("tcp", l.Addr().String())
			require.NoError(t, err)
			t.Cleanup(func() { nc.Close() })
			if hello {
				write(t, nc, appendFrame(nil, frame{kind: kindHello}))
			}
			all = append(all, nc.(*net.TCPConn))
		}
	}
	return all
}

// guest requires that an honest peer gets through to Accept, and returns how long that takes.
func guest(t *testing.T, l *Listener) time.Duration {
	t.Helper()
	start := time.Now()
	c, err := Dial(testContext(t), l.Addr().String(), Config{})
	require.NoError(t, err)
	defer c.Close()
	s, err := l.Accept(testContext(t))
	require.NoError(t, err)
	defer s.Close()
	for s.RemoteAddr().String() != c.LocalAddr().String() { // those before it in the crowd
		require.NoError(t, s.Close())
		s, err = l.Accept(testContext(t))
		require.NoError(t, err)
	}
	exchange(t, s, c, []byte("hello"), []byte("hello"))
	return time.Since(start)
}

// TestSilentPeersDelayNobody: silent peers of the honest peer's own host, and of several hosts, keep it waiting for no time.
func TestSilentPeersDelayNobody(t *testing.T) {
	for _, hosts := range [][]string{{"127.0.0.1"}, {"127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}} {
		inTime(t, handshakeLimit/2, func() time.Duration {
			l, err := Listen(testContext(t), "127.0.0.1:0", Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			crowd(t, l, 2*maxPending/len(hosts), false, hosts...)
			return guest(t, l)
		})
	}
}

// TestNobodyStaysPending: a Listener forgets who was accepted, and who hung up before the handshake.
func TestNobodyStaysPending(t *testing.T) {
	l, err := Listen(testContext(t), "127.0.0.1:0", Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	for _, nc := range crowd(t, l, 3, false, "127.0.0.1") {
		nc.Close()
	}
	for range 3 {
		guest(t, l)
	}
	require.Eventually(t, func() bool {
		l.pending.mu.Lock()
		defer l.pending.mu.Unlock()
		return len(l.pending.all) == 0
	}, waitLimit, time.Millisecond)
}

// fillPlaces has peers that have shaken hands wait for Accept at all places.
func fillPlaces(t *testing.T, l *Listener, cfg Config) (waiting []*Conn) {
	t.Helper()
	for range maxPending {
		c, err := Dial(testContext(t), l.Addr().String(), cfg)
		require.NoError(t, err)
		waiting = append(waiting, c)
	}
	require.Eventually(t, func() bool {
		l.pending.mu.Lock()
		defer l.pending.mu.Unlock()
		return l.pending.silent(SourceOf(waiting[0].LocalAddr())) == nil
	}, waitLimit, time.Millisecond, "one that is still shaking hands would make room")
	return waiting
}

// TestAcceptedStays: nobody has to make room who was accepted, also while peers come that others have to make room for.
func TestAcceptedStays(t *testing.T) {
	for range 8 { // the moment is short
		l, _ := listen(t, Config{})
		crowd(t, l, maxPending, true, "127.0.0.1")
		require.Eventually(t, func() bool {
			l.pending.mu.Lock()
			defer l.pending.mu.Unlock()
			return len(l.pending.all) == maxPending && l.pending.silent(l.pending.all[0].source) == nil
		}, waitLimit, time.Millisecond)
		accepted := make(chan *Conn, maxPending/2)
		var accepts sync.WaitGroup
		accepts.Go(func() {
			for range cap(accepted) {
				if c, err := l.Accept(testContext(t)); err == nil {
					accepted <- c
				}
			}
		})
		crowd(t, l, 60, true, "127.0.0.2")
		accepts.Wait()
		time.Sleep(5 * time.Millisecond)
		require.Len(t, accepted, cap(accepted))
		for range cap(accepted) {
			c := <-accepted
			require.NoError(t, c.Err())
			require.NoError(t, c.Abort(""))
		}
		require.NoError(t, l.Close())
	}
}

// TestTurnedAwayPeerIsTold: who finds all places taken by connections of its host that wait for Accept learns that, and isn't told of
// a peer that has crashed.
func TestTurnedAwayPeerIsTold(t *testing.T) {
	l, rejected := listen(t, Config{})
	waiting := fillPlaces(t, l, Config{})
	before := descriptors()
	for range 20 {
		_, err := Dial(testContext(t), l.Addr().String(), Config{})
		var told *PeerError
		require.ErrorAs(t, err, &told)
		require.True(t, told.Rejected())
		require.Contains(t, told.Reason, "wait to be accepted")
		require.ErrorIs(t, rejected.next(t), errEvicted)
	}
	require.LessOrEqual(t, descriptors(), before, "of those that were turned away")
	for _, c := range waiting {
		require.NoError(t, c.Close())
	}
}

// TestSilentPeerMakesRoom: the oldest of a host's silent peers, which have all places, has to go for its next one, is told so, and is
// reported for that reason.
func TestSilentPeerMakesRoom(t *testing.T) {
	l, rejected := listen(t, Config{})
	silent := crowd(t, l, maxPending, false, "127.0.0.1")
	guest(t, l)
	require.ErrorIs(t, rejected.next(t), errEvicted)
	require.NoError(t, silent[0].SetDeadline(time.Now().Add(waitLimit)))
	_, err := readFrame(silent[0], 0)
	require.NoError(t, err, "its hello")
	_, err = readFrame(silent[0], 0)
	require.ErrorContains(t, err, errEvicted.Error())
}

// TestSilentPeerIsLetGo: a handshake has its own time limit, which is shorter than others.
func TestSilentPeerIsLetGo(t *testing.T) {
	t.Parallel()
	l, rejected := listen(t, Config{})
	start := time.Now()
	dialRaw(t, l.Addr().String())
	require.ErrorIs(t, rejected.next(t), context.DeadlineExceeded)
	require.Less(t, time.Since(start), DefaultTimeout/2)
}

// TestWaitingPeersHoldLittle: what peers send before Accept, or while they are guests, stays with the kernel, apart from a little, and
// nothing of it is lost.
func TestWaitingPeersHoldLittle(t *testing.T) {
	for name, guests := range map[string]bool{"before Accept": false, "guests": true} {
		t.Run(name, func(t *testing.T) { waitingPeersHoldLittle(t, guests) })
	}
}

func waitingPeersHoldLittle(t *testing.T, guests bool) {
	l, _ := listen(t, Config{})
	before := heaptest.Live()
	const messages, senders = 6, 64
	message := bytes.Repeat([]byte{7}, int(DefaultMaxBlob)/2)
	flood := appendFrame(nil, frame{kind: kindBlob, number: 1, payload: []byte("early")})
	for i := range uint32(messages) {
		flood = appendFrame(flood, frame{kind: kindMessage, number: i + 1, payload: message})
	}
	peers := crowd(t, l, senders, true, "127.0.0.1")
	all := make(map[string]*Conn)
	accept := func() {
		c, err := l.AcceptGuest(testContext(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Abort("") })
		all[c.RemoteAddr().String()] = c
	}
	for guests && len(all) < senders {
		accept()
	}
	var wg sync.WaitGroup
	for i, nc := range peers {
		wg.Go(func() {
			if i > 0 {
				_ = nc.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			}
			_, _ = nc.Write(flood)
		})
	}
	time.Sleep(600 * time.Millisecond)
	require.Less(t, heaptest.Live()-before, 8*units.MiB, "for %d peers that send what they can", senders)
	for len(all) < senders {
		accept()
	}
	c := all[peers[0].LocalAddr().String()]
	theirs, err := c.Exchange(testContext(t), nil)
	require.NoError(t, err)
	require.Equal(t, "early", string(theirs), "which guests may say")
	c.Welcome()
	for range messages {
		got, err := c.Recv(testContext(t))
		require.NoError(t, err)
		require.Equal(t, message, got)
	}
	wg.Wait()
}

// TestHeldBack: of what peers send to who holds them back, a message that a Recv waits for is read and little beyond. The rest comes when it is
// asked for, with the peer's last word.
func TestHeldBack(t *testing.T) {
	l, _ := listen(t, Config{})
	const messages, senders = 4, 16
	flood := appendFrame(nil, frame{kind: kindHello})
	for i := range uint32(messages) {
		flood = appendFrame(flood, frame{kind: kindMessage, number: i + 1, payload: bytes.Repeat([]byte{byte(i)}, int(DefaultMaxBlob))})
	}
	flood = appendFrame(flood, frame{kind: kindBlob, number: 1, payload: bytes.Repeat([]byte("blob"), maxHeld)})
	flood = appendFrame(flood, frame{kind: kindMessage, number: messages + 1, payload: []byte("behind it")})
	flood = append(flood, reasonFrame(CodeRejected, "enough")...)
	before := heaptest.Live()
	var all []*Conn
	for _, nc := range crowd(t, l, senders, false, "127.0.0.1") {
		go func() { _, _ = nc.Write(flood) }()
		c, err := l.AcceptGuest(testContext(t))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Abort("") })
		c.HoldBack()
		c.Welcome()
		all = append(all, c)
	}
	time.Sleep(200 * time.Millisecond)
	require.Less(t, heaptest.Live()-before, 2*units.MiB, "for %d peers that send what they can", senders)
	c := all[0]
	for i := range messages {
		m, err := c.Recv(testContext(t))
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte{byte(i)}, int(DefaultMaxBlob)), m)
	}
	b, err := c.Exchange(testContext(t), nil)
	require.NoError(t, err)
	require.Len(t, b, 4*maxHeld)
	m, err := c.Recv(testContext(t))
	require.NoError(t, err)
	require.Equal(t, "behind it", string(m))
	require.ErrorContains(t, ended(t, c, waitLimit), "enough")
}

// TestHeldBackUnderBounds: who is held back is never cut off for more than may wait, whether that is many messages or long ones.
func TestHeldBackUnderBounds(t *testing.T) {
	s, c := pair(t, Config{MaxBlob: 1024}, Config{MaxBlob: 1024})
	s.HoldBack()
	const messages = 3 * maxQueued
	for i := range messages {
		require.NoError(t, c.Send(testContext(t), make([]byte, i%2*1024)))
	}
	time.Sleep(20 * time.Millisecond)
	for i := range messages {
		m, err := s.Recv(testContext(t))
		require.NoError(t, err)
		require.Len(t, m, i%2*1024)
	}
	_, _ = exchange(t, s, c, nil, nil)
}

// TestLeftMessages: what a peer has sent before it closed is there for who accepts it later, and who has left nothing isn't kept.
func TestLeftMessages(t *testing.T) {
	l, rejected := listen(t, Config{})
	for _, messages := range []int{0, 2} {
		c, err := Dial(testContext(t), l.Addr().String(), Config{})
		require.NoError(t, err)
		for range messages {
			require.NoError(t, c.Send(testContext(t), []byte("news")))
		}
		require.NoError(t, c.Close()) // this end has heard of it by then
	}
	require.ErrorIs(t, rejected.next(t), ErrPeerClosed)
	time.Sleep(20 * time.Millisecond)
	s, err := l.Accept(testContext(t))
	require.NoError(t, err)
	defer s.Close()
	for range 2 {
		m, err := s.Recv(testContext(t))
		require.NoError(t, err)
		require.Equal(t, "news", string(m))
	}
	_, err = s.Recv(testContext(t))
	require.ErrorIs(t, err, ErrPeerClosed)
	require.Empty(t, rejected)
}

// TestWhoMakesRoom walks through the choices of a full house.
func TestWhoMakesRoom(t *testing.T) {
	source := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	}
	var gone []string
	var s pendingConns
	admit := func(i int, greeted bool, name string) bool {
		nc, _ := net.Pipe()
		return s.admit(&pendingConn{nc: nc, source: source(i), greeted: greeted, cancel: func(error) { gone = append(gone, name) }})
	}
	expect := func(name string) {
		t.Helper()
		require.Equal(t, []string{name}, gone)
		gone = nil
	}
	// One source may fill the house, however fast. Then its own oldest silent connection goes, and at last none.
	for i := range maxPending - 1 {
		require.True(t, admit(1, true, fmt.Sprint("greeted ", i)))
	}
	require.True(t, admit(1, false, "silent"))
	require.Empty(t, gone)
	require.True(t, admit(1, true, "last"))
	expect("silent")
	require.False(t, admit(1, true, ""))
	// The busiest source has to make room for a newcomer of another.
	require.True(t, admit(2, true, "second"))
	expect("greeted 0")
	// The busiest source's silent connections go first.
	for _, p := range s.all {
		if p.source == source(1) {
			p.greeted = false
		}
	}
	require.True(t, admit(3, true, "third"))
	expect("greeted 1")
	// Another source's silent connection doesn't, though it is older.
	s.all = nil
	require.True(t, admit(5, false, "another's"))
	for range maxPending - 2 {
		require.True(t, admit(1, true, "greeted"))
	}
	require.True(t, admit(1, false, "silent"))
	require.True(t, admit(2, true, ""))
	expect("silent")
	// Of two sources the one with less gets as much as the other, and no more.
	s.all = nil
	for i := range maxPending {
		require.True(t, admit(min(i/(maxPending/2+1), 1), true, fmt.Sprint(i)))
	}
	require.True(t, admit(1, true, ""))
	expect("0")
	require.False(t, admit(1, true, ""))
	require.False(t, admit(0, true, ""))
	// With one from each, a silent one goes, and else the newcomer.
	s.all = nil
	for i := range maxPending {
		require.True(t, admit(i, i != 77, fmt.Sprint(i)))
	}
	require.True(t, admit(1000, true, "new"))
	expect("77")
	require.False(t, admit(1001, true, ""))
	require.Empty(t, gone)
	require.Len(t, s.all, maxPending)
}

// An exhausted listener has no descriptor for the first that connects.
type exhausted struct {
	net.Listener
	once sync.Once
}

func (l *exhausted) Accept() (nc net.Conn, err error) {
	l.once.Do(func() {
		err = &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: os.NewSyscallError("accept4", unix.EMFILE)}
	})
	if err != nil {
		return nil, err
	}
	return l.Listener.Accept()
}

// TestNoDescriptorLeft: a Listener that the kernel gives no connection says why and what to do, blames no peer, and goes on.
func TestNoDescriptorLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var log bytes.Buffer
	rejected := make(rejections, 1)
	cfg := rejected.config(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	l := newListener(&exhausted{Listener: ln}, cfg)
	err = rejected.next(t)
	require.ErrorIs(t, err, unix.EMFILE)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Fix, "ulimit -n")
	guest(t, l)
	require.NoError(t, l.Close())
	require.Contains(t, log.String(), "can't accept peers")
	require.NotContains(t, log.String(), "peer=")
}

func TestSourceOf(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:5": "192.0.2.1/32", "[::ffff:192.0.2.1]:5": "192.0.2.1/32", "[2001:db8::1:2:3:4]:5": "2001:db8::/64", "[fe80::1%lo]:5": "fe80::/64",
	} {
		require.Equal(t, want, SourceOf(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))).String())
	}
	require.False(t, SourceOf(&net.UnixAddr{}).IsValid())
}

// TestBoundedLog: bad peers can't fill a log.
func TestBoundedLog(t *testing.T) {
	var log bytes.Buffer
	l, rejected := listen(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	start := time.Now()
	const visits = 200
	for range visits {
		nc := dialRaw(t, l.Addr().String())
		write(t, nc, []byte("GET / HTTP/1.1\r\n"))
		nc.Close()
		rejected.next(t)
	}
	require.NoError(t, l.Close())
	lines := strings.Count(log.String(), "\n")
	require.GreaterOrEqual(t, lines, logBurst)
	require.LessOrEqual(t, lines, logBurst+1+int(time.Since(start)/logEvery))
	require.Less(t, lines, visits)

	r := reporter{}
	now := time.Now()
	for i := range 3 * logBurst {
		ok, _ := r.mayLog(now)
		require.Equal(t, i < logBurst, ok)
	}
	ok, silent := r.mayLog(now.Add(logEvery))
	require.True(t, ok)
	require.Equal(t, 2*logBurst, silent)
}

func TestDeadHostLimit(t *testing.T) {
	s, c := pair(t, Config{DeadHostLimit: 40 * units.Second}, Config{})
	limit := func(c *Conn) (millis int) {
		raw, err := c.nc.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			millis, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		}))
		require.NoError(t, err)
		return millis
	}
	require.Equal(t, 40_000, limit(s))
	require.Equal(t, 10_000, limit(c))
	require.NoError(t, c.SetDeadHostLimit(90*units.Second))
	require.Equal(t, 90_000, limit(c))
	require.NoError(t, c.SetDeadHostLimit(units.Millisecond))
	require.Equal(t, 1_000, limit(c))
	require.NoError(t, c.SetDeadHostLimit(units.Never.Sub(0)))
	require.Positive(t, limit(c))
	require.NoError(t, c.Close())
	require.Error(t, c.SetDeadHostLimit(units.Second))
}
