// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/heaptest"
	"github.com/sdr-rdma/go-sdr/internal/oobtest"
	"github.com/sdr-rdma/go-sdr/internal/watched"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestSilentPeers: peers that say nothing, or only half of what is to be said, keep nobody out, however many they are.
func TestSilentPeers(t *testing.T) {
	const silent = 150 // the Listener has room for 64
	const hello = "SDRN\x01\x00\x10\x00\x00\x04\x00\x00"
	var log watched.Buffer
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	// The Listener would wait 10 s for each of two rounds of them, one after the other, which makes 20 s.
	ctx, cancel := context.WithTimeout(t.Context(), 19*time.Second)
	defer cancel()
	for i := range silent {
		s, err := oob.Dial(ctx, l.Addr().String(), oob.Config{})
		require.NoError(t, err)
		defer s.Close()
		if i%2 == 0 {
			_, err = s.Exchange(ctx, []byte(hello))
			require.NoError(t, err)
		}
	}
	c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
	require.NoError(t, err)
	defer c.Close()
	a, err := l.Accept(ctx)
	require.NoError(t, err)
	defer a.Close()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "too many peers connect at once") }, waitLimit, time.Millisecond)
}

// TestCrowdOfOneHost: a host that says half of what is to be said, again and again, makes room for itself and not in place of others, and
// peers of one host that all go on aren't thrown out for each other.
func TestCrowdOfOneHost(t *testing.T) {
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.DiscardHandler)})
	ctx := testContext(t)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 9, 9)}}
	for range 300 { // more than the Listener has room for
		s, err := from.DialContext(ctx, "tcp", l.Addr().String())
		require.NoError(t, err)
		defer s.Close()
		_, _ = s.Write([]byte(oobtest.Hello)) // and no more
	}
	begun := time.Now()
	const honest = 12
	ctx, fail := context.WithCancelCause(ctx) // Accept has nobody to wait for where a Dial has failed
	defer fail(nil)
	for range honest {
		go func() {
			c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
			if err != nil {
				fail(err)
				return
			}
			_, err = c.Recv(ctx)
			var told *oob.PeerError
			if errors.As(err, &told) && told.Busy() {
				fail(fmt.Errorf("its place was another's after Dial had returned: %w", err))
			}
			c.Close()
		}()
	}
	for range honest {
		a, err := l.Accept(ctx)
		require.NoError(t, err)
		defer a.Close()
	}
	t.Logf("%d connected beside it within %v", honest, time.Since(begun))
}

// TestGuestsHoldLittle: peers that send as much as they can behind their hello make the Listener hold little of it, and nothing is missing of
// what an honest one sends before it is accepted.
func TestGuestsHoldLittle(t *testing.T) {
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.DiscardHandler)})
	connect(t, l, nil) // opens the device, which has memory of its own
	before := heaptest.Live()
	const guests = 32 // of 64 places
	oobtest.Flood(t, l.Addr().String(), guests)
	require.Less(t, heaptest.Live()-before, 8*units.MiB, "for %d peers that send what they can", guests)

	ctx := testContext(t)
	c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
	require.NoError(t, err)
	defer c.Close()
	message := bytes.Repeat([]byte("large"), int(units.MiB))
	sent := make(chan error, 1)
	go func() { sent <- c.Send(ctx, message) }()
	time.Sleep(20 * time.Millisecond)
	a, err := l.Accept(ctx)
	require.NoError(t, err)
	defer a.Close()
	m, err := a.Recv(ctx)
	require.NoError(t, err)
	require.True(t, bytes.Equal(message, m.Bytes()))
	m.Release()
	require.NoError(t, <-sent)
}

// TestConfiguredAddr: whichever address of this host peers dial, the device is at Config.Addr, and they share it.
func TestConfiguredAddr(t *testing.T) {
	free, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	port := free.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	require.NoError(t, free.Close())
	l, err := sdrnet.Listen("0.0.0.0:0", &sdrnet.Config{Addr: netip.MustParseAddr("127.0.0.1"), UDPPort: port})
	require.NoError(t, err)
	defer l.Close()
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.1"} {
		c, err := sdrnet.Dial(testContext(t), fmt.Sprintf("%s:%d", host, l.Addr().(*net.TCPAddr).Port), nil)
		require.NoError(t, err, host)
		defer c.Close()
		a, err := l.Accept(testContext(t))
		require.NoError(t, err, host)
		defer a.Close()
	}
}

// TestIdleDevicesAreClosed: peers who dial one address of this host after the other, and leave, leave no device for each behind.
func TestIdleDevicesAreClosed(t *testing.T) {
	l, err := sdrnet.Listen("0.0.0.0:0", &sdrnet.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer l.Close()
	before := descriptors(t)
	one := 0
	for i := range 8 {
		s, err := oob.Dial(testContext(t), fmt.Sprintf("127.0.1.%d:%d", i+1, l.Addr().(*net.TCPAddr).Port), oob.Config{})
		require.NoError(t, err)
		_, _ = s.Exchange(testContext(t), []byte("no hello"))
		require.NoError(t, s.Close())
		if i == 0 {
			one = descriptors(t) - before
		}
	}
	require.Eventually(t, func() bool { return descriptors(t)-before <= one }, waitLimit, time.Millisecond, "one device has %d descriptors", one)
}

// TestDialGivenUp: a Dial whose context ends while it waits for a peer that is frozen doesn't wait for that one's goodbye.
func TestDialGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	quickest := time.Hour
	for range 3 { // a busy machine may delay any of them
		ctx, cancel := context.WithCancel(testContext(t))
		errs := make(chan error, 1)
		go func() { _, err := sdrnet.Dial(ctx, l.Addr().String(), nil); errs <- err }()
		nc, err := l.Accept()
		require.NoError(t, err)
		var hello [16]byte
		_, err = io.ReadFull(nc, hello[:])
		require.NoError(t, err)
		_, err = nc.Write(hello[:]) // the same as the peer's, and then nothing
		require.NoError(t, err)
		time.Sleep(20 * time.Millisecond)
		given := time.Now()
		cancel()
		require.ErrorIs(t, <-errs, context.Canceled)
		quickest = min(quickest, time.Since(given))
		require.NoError(t, nc.Close())
	}
	require.Less(t, quickest, 200*time.Millisecond)
}

// TestDialNoRoom: Dial tries again when the peer has no room or hasn't waited, however far the two have got, and not when it is refused.
func TestDialNoRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	last := func(code oob.Code, reason string) string {
		return "SDRx\x01\x04\x00\x00\x00\x00\x00" + string(rune(code)) + "\x00\x00\x00" + string(rune(len(reason))) + reason
	}
	errs := make(chan error, 1)
	go func() { _, err := sdrnet.Dial(testContext(t), l.Addr().String(), nil); errs <- err }()
	for _, says := range []string{last(oob.CodeBusy, "no room"), last(oob.CodeTimeout, "too late"), oobtest.Hello + last(oob.CodeBusy, "no room"),
		oobtest.Hello + last(oob.CodeTimeout, "too late"), oobtest.Hello + last(oob.CodeRejected, "enough")} {
		nc, err := l.Accept()
		require.NoError(t, err)
		_, err = io.WriteString(nc, says)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, nc) // until the other end has closed
		require.NoError(t, nc.Close())
	}
	require.ErrorContains(t, <-errs, "enough")
}

// TestListenerClosesQuietly: that a Listener was closed is no news of the peers who were connecting.
func TestListenerClosesQuietly(t *testing.T) {
	var log watched.Buffer
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 4 {
		s, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
		require.NoError(t, err)
		defer s.Close()
		if i%2 == 0 {
			_, err = s.Exchange(t.Context(), []byte("SDRN\x01\x00\x10\x00\x00\x04\x00\x00"))
			require.NoError(t, err)
		}
	}
	require.NoError(t, l.Close())
	require.Empty(t, log.String())
}

// TestMismatchOnce: that the schemes differ is said once and in one line, although each lane finds it, at the end that dials, in the log
// of the other, and as what each told the other.
func TestMismatchOnce(t *testing.T) {
	var log watched.Buffer
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := testContext(t)
	_, err := sdrnet.Dial(ctx, l.Addr().String(), &sdrnet.Config{Scheme: func() (scheme.Scheme, error) { return schemes.New("sr", schemes.Params{}) }})
	require.ErrorIs(t, err, sdr.ErrMismatch)
	require.Equal(t, 1, strings.Count(err.Error(), "reliability scheme is"), err)
	require.NotContains(t, err.Error(), "\n")
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "turned a peer away") }, waitLimit, time.Millisecond)
	require.Equal(t, 1, strings.Count(log.String(), "reliability scheme is"), log.String())
}

// TestDiedWhileConnecting: of a peer that dies the log doesn't say that it was turned away, however far the two have got.
func TestDiedWhileConnecting(t *testing.T) {
	var log watched.Buffer
	l := listen(t, &sdrnet.Config{Link: linkemu.Config{RTT: units.Second}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	says := func(n int) func() bool {
		return func() bool { return strings.Count(log.String(), "a peer left while connecting") == n }
	}

	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = io.WriteString(nc, oobtest.Hello)
	require.NoError(t, err)
	require.NoError(t, nc.Close())
	require.Eventually(t, says(1), waitLimit, time.Millisecond, "before its exchanges")

	between, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer between.Close()
	errs := make(chan error, 1)
	go func() { _, err := sdrnet.Dial(testContext(t), between.Addr().String(), nil); errs <- err }()
	client, err := between.Accept()
	require.NoError(t, err)
	server, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	go func() { _, _ = io.Copy(server, client) }()
	go func() { _, _ = io.Copy(client, server) }()
	time.Sleep(100 * time.Millisecond) // most often enough for both exchanges, and too little for the Listener's packets
	require.NoError(t, server.Close())
	require.NoError(t, client.Close())
	require.Error(t, <-errs)
	require.Eventually(t, says(2), waitLimit, time.Millisecond, "while its lanes connect")
	require.NotContains(t, log.String(), "turned a peer away")
}

// descriptors is how many this process has.
func descriptors(t *testing.T) int {
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// TestClosedWhileDialling: Dial says what happened when the peer closes its connection before that stands here, because its own packets are
// slow to confirm it.
func TestClosedWhileDialling(t *testing.T) {
	var accepting sync.WaitGroup
	t.Cleanup(accepting.Wait) // once l has closed: a device that closes in the background would puzzle a test that counts descriptors
	l := listen(t, &sdrnet.Config{Link: linkemu.Config{RTT: 200 * units.Millisecond}})
	ctx := testContext(t)
	accepting.Go(func() {
		for c, err := l.Accept(ctx); err == nil; c, err = l.Accept(ctx) {
			c.Close()
		}
	})
	for {
		c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
		if err == nil { // it was late
			c.Close()
			continue
		}
		require.ErrorIs(t, err, sdr.ErrPeerClosed)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.NotErrorIs(t, err, io.EOF)
		return
	}
}

// TestDescriptors: the ends of a connection cost as many file descriptors as Dial says: one that was dialled its own device, one that was
// accepted only itself.
func TestDescriptors(t *testing.T) {
	l := listen(t, nil)
	connect(t, l, nil) // opens what all share
	var before, after int
	for range 3 { // of which one may meet what tests before this one still close
		before = descriptors(t)
		c, err := sdrnet.Dial(testContext(t), l.Addr().String(), nil)
		require.NoError(t, err)
		a, err := l.Accept(testContext(t))
		require.NoError(t, err)
		both := descriptors(t) - before
		require.LessOrEqual(t, both, 18+3*sdr.DefaultWorkers())
		require.NoError(t, c.Close())
		require.LessOrEqual(t, descriptors(t)-before, 1, "the accepted end")
		require.NoError(t, a.Close())
		if after = descriptors(t); after == before {
			break
		}
	}
	require.Equal(t, before, after)
}

// TestLeftAtOnce: a peer whose Dial has returned, and that closes before the connection stands here, because its packets are slow to confirm
// it, is one that Accept returns, and its messages are at their end. It is no peer that was turned away.
func TestLeftAtOnce(t *testing.T) {
	var log watched.Buffer
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx := testContext(t)
	for range 3 {
		c, err := sdrnet.Dial(ctx, l.Addr().String(), &sdrnet.Config{Link: linkemu.Config{RTT: 200 * units.Millisecond}})
		require.NoError(t, err)
		require.NoError(t, c.Close())
		a, err := l.Accept(ctx)
		require.NoError(t, err)
		for range 2 {
			_, err = a.Recv(ctx)
			require.Equal(t, io.EOF, err)
		}
		require.ErrorIs(t, a.Send(ctx, nil), syscall.EPIPE)
		_, err = a.RecvMemory(ctx, must(a.Alloc(1)), 0, 1)
		require.Equal(t, io.EOF, err)
		require.NoError(t, a.Close())
	}
	require.Empty(t, log.String())
}

// TestPortTaken: a device that can't be opened at the address that was configured ends Accept, and the peer hears why.
func TestPortTaken(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	taken, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	require.NoError(t, err)
	defer taken.Close()
	l := listen(t, &sdrnet.Config{Addr: addr, UDPPort: taken.LocalAddr().(*net.UDPAddr).AddrPort().Port()})
	_, err = sdrnet.Dial(testContext(t), l.Addr().String(), nil)
	require.ErrorContains(t, err, "UDP port")
	_, err = l.Accept(testContext(t))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	_, err = l.Accept(testContext(t))
	require.ErrorIs(t, err, syscall.EADDRINUSE, "for good")
	_, err = sdrnet.Dial(testContext(t), l.Addr().String(), nil)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "and who dials needn't wait for it")
	again, err := sdrnet.Listen(l.Addr().String(), nil)
	require.NoError(t, err, "the port is free")
	require.NoError(t, again.Close())
}

// TestShortage: descriptors that are all in use when a peer comes are no fault of the address that was configured, and end nothing.
func TestShortage(t *testing.T) {
	l := listen(t, &sdrnet.Config{Addr: netip.MustParseAddr("127.0.0.1"), UDPPort: userroce.AnyPort})
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	next, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(next))
	enough := uint64(next) + 6 // for the meeting over TCP, and not for a device
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: enough, Max: limit.Max}))
	peer, err := oob.Dial(testContext(t), l.Addr().String(), oob.Config{})
	if err == nil {
		_, err = peer.Recv(testContext(t))
		_ = peer.Close()
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorContains(t, err, "ulimit -n")
	dialled, err := sdrnet.Dial(testContext(t), l.Addr().String(), nil)
	require.NoError(t, err)
	accepted, err := l.Accept(testContext(t))
	require.NoError(t, err)
	require.NoError(t, errors.Join(dialled.Close(), accepted.Close()))
}

// TestNoSuchDevice: a device that isn't there is an error of Listen, and not one that each peer gets.
func TestNoSuchDevice(t *testing.T) {
	for _, name := range []string{"none0", "rc:none0"} {
		_, err := sdrnet.Listen("127.0.0.1:0", &sdrnet.Config{Device: name})
		require.ErrorIs(t, err, verbs.ErrNoDevice)
		require.ErrorContains(t, err, " none0:")
	}
}

// TestFlagsKeepDefaults: AddFlags changes nothing of a Config whose user gives no flag.
func TestFlagsKeepDefaults(t *testing.T) {
	set := sdrnet.Config{Device: "rxe0", Addr: netip.MustParseAddr("192.0.2.1"), UDPPort: 5000, Silence: units.Second,
		Link: linkemu.Config{RTT: units.Millisecond, Rate: units.Gbit, Drop: 0.1, Reorder: 0.2, Duplicate: 0.3, Seed: 4}}
	cfg := set
	f := flag.NewFlagSet("", flag.ContinueOnError)
	cfg.AddFlags(f)
	require.NoError(t, f.Parse(nil))
	require.Equal(t, set, cfg)
	require.NoError(t, f.Parse([]string{"-addr", "192.0.2.2"}))
	require.Equal(t, "192.0.2.2", cfg.Addr.String())
}

func TestListener(t *testing.T) {
	l := listen(t, nil)
	ctx := testContext(t)

	// Somebody who speaks something else is turned away.
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, _ = nc.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	defer nc.Close()

	// Several at a time, on one device.
	const n = 5
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := sdrnet.Dial(ctx, l.Addr().String(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if err := c.Send(ctx, []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	var conns []*sdrnet.Conn
	var sum int
	for range n {
		c, err := l.Accept(ctx)
		require.NoError(t, err)
		m, err := c.Recv(ctx)
		require.NoError(t, err)
		sum += int(m.Bytes()[0])
		m.Release()
		conns = append(conns, c)
	}
	wg.Wait()
	require.Equal(t, 0+1+2+3+4, sum)

	waiting := make(chan error)
	go func() { _, err := l.Accept(ctx); waiting <- err }()
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-waiting, net.ErrClosed)
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, net.ErrClosed)
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
	_, err = sdrnet.Dial(ctx, l.Addr().String(), nil)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// TestBoundedLog: peers that get as far as sdrnet and are turned away there can't fill a log, however many they are.
func TestBoundedLog(t *testing.T) {
	var log watched.Buffer
	l := listen(t, &sdrnet.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	start := time.Now()
	const visits = 200
	for range visits {
		s, err := oob.Dial(t.Context(), l.Addr().String(), oob.Config{})
		require.NoError(t, err)
		_, err = s.Exchange(t.Context(), []byte("no hello of sdrnet"))
		require.NoError(t, err)
		_, err = s.Recv(t.Context())
		require.ErrorContains(t, err, "not sdrnet")
		require.NoError(t, s.Close())
	}
	lines := strings.Count(log.String(), "\n")
	require.GreaterOrEqual(t, lines, 10)
	require.LessOrEqual(t, lines, 11+int(time.Since(start)/time.Second))
}

// TestConnectingAsListenerCloses: a client that is connecting when the Listener closes hears that it has closed, however far the two have got,
// and nothing that it could take for its own doing. Of those that the kernel has and the Listener has not, it can't know.
func TestConnectingAsListenerCloses(t *testing.T) {
	for i := range 30 {
		l, err := sdrnet.Listen("127.0.0.1:0", &sdrnet.Config{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		const clients = 4
		errs := make(chan error, clients)
		for range clients {
			go func() {
				c, err := sdrnet.Dial(testContext(t), l.Addr().String(), nil)
				if err == nil {
					_, err = c.Recv(testContext(t))
					_ = c.Close()
				}
				errs <- err
			}()
		}
		time.Sleep(time.Duration(i) * time.Millisecond)
		require.NoError(t, l.Close())
		_, err = l.Accept(testContext(t))
		require.ErrorIs(t, err, net.ErrClosed)
		for range clients {
			err := <-errs
			require.Error(t, err)
			if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, sdr.ErrPeerClosed) {
				continue
			}
			require.ErrorContains(t, err, "the listener has closed")
		}
	}
}
