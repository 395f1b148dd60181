// SPDX-License-Identifier: Apache-2.0

package sdrnet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdrnet"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waitLimit bounds waits that end at once unless the code is wrong.
const waitLimit = 30 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// badLink is a link that loses, reorders and repeats.
func badLink(seed uint64) linkemu.Config {
	return linkemu.Config{Seed: seed, RTT: 4 * units.Millisecond, Rate: 2 * units.Gbit, MarkAbove: 64 * units.KiB, Drop: 0.01, Reorder: 0.02, Duplicate: 0.01}
}

func listen(t testing.TB, cfg *sdrnet.Config) *sdrnet.Listener {
	l, err := sdrnet.Listen("127.0.0.1:0", cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// connect makes a connection over l.
func connect(t testing.TB, l *sdrnet.Listener, cfg *sdrnet.Config) (dialled, accepted *sdrnet.Conn) {
	ctx := testContext(t)
	dialled, err := sdrnet.Dial(ctx, l.Addr().String(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { dialled.Close() })
	accepted, err = l.Accept(ctx)
	require.NoError(t, err)
	t.Cleanup(func() { accepted.Close() })
	return dialled, accepted
}

func pair(t testing.TB, cfg *sdrnet.Config) (dialled, accepted *sdrnet.Conn) {
	return connect(t, listen(t, cfg), cfg)
}

// TestAcknowledgedIsTaken: messages that have arrived, as their senders know, are taken although the connection ends while one that was sent
// before them is still being repaired.
func TestAcknowledgedIsTaken(t *testing.T) {
	const sends = 10
	for seed := range uint64(8) {
		link := linkemu.Config{RTT: 40 * units.Millisecond, Drop: 0.2, Seed: seed}
		a, b := pair(t, &sdrnet.Config{Link: link, Window: sends})
		ctx := testContext(t)
		acked := make(chan byte, sends)
		var all sync.WaitGroup
		for i := range byte(sends) {
			all.Go(func() {
				if a.Send(ctx, []byte{i}) == nil {
					acked <- i
				}
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(75 * time.Millisecond) // some are acknowledged by then
		require.NoError(t, a.Close())
		all.Wait()
		close(acked)
		got := map[byte]bool{}
		for {
			m, err := b.Recv(ctx)
			if err != nil {
				require.ErrorIs(t, err, io.EOF, "seed %d", seed)
				break
			}
			got[m.Bytes()[0]] = true
			m.Release()
		}
		for i := range acked {
			require.True(t, got[i], "seed %d: message %d was acknowledged", seed, i)
		}
	}
}

// TestAnnouncedAgainAndAgain: a peer that begins one long message after the other, and ends none, has memory made for one of them.
func TestAnnouncedAgainAndAgain(t *testing.T) {
	const times = 100
	a, b := pair(t, nil)
	ctx := testContext(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	errs := make(chan error, 1)
	go func() {
		for range times {
			if err := a.SendPiece(ctx, 1, true, 200); err != nil {
				errs <- err
				return
			}
		}
		errs <- a.Send(ctx, []byte("the end"))
	}()
	require.Equal(t, "the end", recvText(t, b))
	require.NoError(t, <-errs)
	runtime.ReadMemStats(&after)
	require.Less(t, units.Bytes(after.TotalAlloc-before.TotalAlloc), 8*200*256*units.KiB, "5 GiB, were each announcement to take what a message may have")
}

func TestMessages(t *testing.T) {
	for name, cfg := range map[string]*sdrnet.Config{
		"defaults":      nil,
		"bad link":      {Link: badLink(1)},
		"small buffers": {BufferSize: 4 * units.KiB, Window: 2},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, cfg)
			ctx := testContext(t)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			var sent [][]byte
			for _, n := range []int{0, 1, 100, 4096, 4097, 8192, 300_000, 1 << 20} {
				m := make([]byte, n)
				for i := range m {
					m[i] = byte(rng.Uint32())
				}
				sent = append(sent, m)
			}
			for _, way := range [][2]*sdrnet.Conn{{a, b}, {b, a}} {
				errs := make(chan error, 1)
				go func() {
					for _, m := range sent {
						if err := way[0].Send(ctx, m); err != nil {
							errs <- err
							return
						}
					}
					errs <- nil
				}()
				for _, want := range sent {
					m, err := way[1].Recv(ctx)
					require.NoError(t, err)
					require.True(t, bytes.Equal(want, m.Bytes()), "message of %d bytes", len(want))
					m.Release()
				}
				require.NoError(t, <-errs)
			}
		})
	}
}

// TestOrder: messages of several goroutines arrive whole, and those of each in its order.
func TestOrder(t *testing.T) {
	const senders, each = 4, 50
	a, b := pair(t, &sdrnet.Config{BufferSize: 4 * units.KiB, Window: 8, Link: badLink(2)})
	ctx := testContext(t)
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				m := bytes.Repeat([]byte{byte(s), byte(i)}, 1+i*i*4) // up to five buffers
				if err := a.Send(ctx, m); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	next := [senders]int{}
	for range senders * each {
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		s, i := int(m.Bytes()[0]), int(m.Bytes()[1])
		require.Equal(t, next[s], i, "sender %d", s)
		require.Equal(t, bytes.Repeat([]byte{byte(s), byte(i)}, 1+i*i*4), m.Bytes())
		next[s]++
		m.Release()
	}
	wg.Wait()
}

// TestSenderWaits: a peer that takes nothing stops its sender, and fails nothing, however long.
func TestSenderWaits(t *testing.T) {
	t.Parallel()                     // it mostly sleeps
	const silence = 2 * units.Second // a busy machine lets an end be silent for some of it
	a, b := pair(t, &sdrnet.Config{Window: 2, Silence: silence})
	ctx := testContext(t)
	sent := make(chan error, 8)
	for i := range cap(sent) {
		go func() { sent <- a.Send(ctx, []byte{byte(i)}) }()
	}
	require.NoError(t, <-sent)
	require.NoError(t, <-sent)
	select {
	case err := <-sent:
		t.Fatalf("a third Send returned before anything was taken: %v", err)
	case <-time.After(2 * silence):
	}
	for range cap(sent) {
		m, err := b.Recv(ctx)
		require.NoError(t, err)
		m.Release()
	}
	for range cap(sent) - 2 {
		require.NoError(t, <-sent)
	}
}

// TestGivenUp: a Send that its context ended is not seen, in one piece or several, and what follows is.
func TestGivenUp(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Window: 2, BufferSize: 4 * units.KiB})
	ctx := testContext(t)
	for _, n := range []int{100, 4096 * 2, 4096 * 10} {
		require.NoError(t, a.Send(ctx, []byte("first")))
		require.NoError(t, a.Send(ctx, []byte("second")))
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err := a.Send(short, make([]byte, n))
		cancel()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		last := make(chan error, 1)
		go func() { last <- a.Send(ctx, []byte("last")) }()
		for _, want := range []string{"first", "second", "last"} {
			m, err := b.Recv(ctx)
			require.NoError(t, err)
			require.Equal(t, want, string(m.Bytes()))
			m.Release()
		}
		require.NoError(t, <-last)
	}
}

func TestRecvEnds(t *testing.T) {
	a, b := pair(t, nil)
	short, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := b.Recv(short)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	ctx := testContext(t)
	require.NoError(t, a.Send(ctx, []byte("still there")))
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	require.Equal(t, "still there", string(m.Bytes()))

	// A message outlives its connection.
	require.NoError(t, b.Close())
	require.Equal(t, "still there", string(m.Bytes()))
	m.Release()
	m.Release()
}

func TestPeerCloses(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	require.NoError(t, a.Send(ctx, []byte("the last")))
	require.NoError(t, a.Close())
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	m.Release()
	_, err = b.Recv(ctx)
	require.Equal(t, io.EOF, err)
	_, err = b.RecvMemory(ctx, must(b.Alloc(1)), 0, 1)
	require.Equal(t, io.EOF, err)
	require.ErrorIs(t, b.Send(ctx, nil), syscall.EPIPE)

	_, err = a.Recv(ctx)
	require.ErrorIs(t, err, net.ErrClosed)
	require.ErrorIs(t, a.Send(ctx, nil), net.ErrClosed)
	require.NoError(t, a.Close())
}

// TestLastMessages: what had arrived before the peer closed is there whatever its length and the window, and then io.EOF.
func TestLastMessages(t *testing.T) {
	for _, c := range []struct{ window, size int }{{1, 4096}, {4, 3 * 4096}, {3, 3 * 4096}} {
		a, b := pair(t, &sdrnet.Config{Window: c.window, BufferSize: 4096})
		ctx := testContext(t)
		require.NoError(t, a.Send(ctx, make([]byte, c.size)))
		require.NoError(t, a.Close())
		require.ErrorIs(t, b.Send(ctx, nil), syscall.EPIPE, "now b knows")
		m, err := b.Recv(ctx)
		require.NoError(t, err, "%+v", c)
		require.Len(t, m.Bytes(), c.size)
		m.Release()
		for range 2 {
			_, err = b.Recv(ctx)
			require.Equal(t, io.EOF, err, "%+v", c)
		}
	}
}

// TestCloseWithReason: the peer of an end that closes with a reason learns it in every call, under way and later.
func TestCloseWithReason(t *testing.T) {
	a, b := pair(t, nil)
	ctx := testContext(t)
	waits := make(chan error)
	go func() { waits <- b.SendFrom(ctx, strings.NewReader("never taken"), 11, nil) }()
	require.NoError(t, a.Send(ctx, []byte("the last")))
	require.NoError(t, a.CloseWithReason("the disk\nis full"))
	m, err := b.Recv(ctx)
	require.NoError(t, err, "it came before")
	m.Release()
	_, err = b.Recv(ctx)
	for i, err := range []error{<-waits, err, b.Send(ctx, nil), func() error { _, err := b.RecvTo(ctx, nil, nil); return err }()} {
		var said *oob.PeerError
		require.ErrorAs(t, err, &said, "call %d", i)
		require.Equal(t, "the disk?is full", said.Reason)
		require.ErrorIs(t, err, sdr.ErrPeerClosed)
		require.NotErrorIs(t, err, io.EOF)
	}
	_, err = a.Recv(ctx)
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestPrivateData: each end has what the other was configured to tell; one that tells too much is turned away.
func TestPrivateData(t *testing.T) {
	l := listen(t, &sdrnet.Config{PrivateData: []byte("from the listener")})
	big := make([]byte, 4096)
	a, b := connect(t, l, &sdrnet.Config{PrivateData: big})
	require.Equal(t, "from the listener", string(a.PeerPrivateData()))
	require.Equal(t, big, b.PeerPrivateData())
	ctx := testContext(t)
	s, err := oob.Dial(ctx, l.Addr().String(), oob.Config{})
	require.NoError(t, err)
	defer s.Close()
	_, _ = s.Exchange(ctx, append([]byte("SDRN\x01\x00\x10\x00\x00\x04\x00\x00"), make([]byte, 4097)...))
	_, err = s.Recv(ctx)
	require.ErrorContains(t, err, "private data")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestCloseUnderWay: calls under way end when this end closes.
func TestCloseUnderWay(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Window: 1})
	ctx := testContext(t)
	require.NoError(t, a.Send(ctx, []byte("fills the window")))
	errs := make(chan error)
	mem := must(a.Alloc(4096))
	for _, call := range []func() error{
		func() error { return a.Send(ctx, []byte("waits")) },
		func() error { return a.Send(ctx, []byte("waits for its turn")) },
		func() error { _, err := a.Recv(ctx); return err },
		func() error { return a.SendMemory(ctx, mem, 0, 4096, sdrnet.SendOptions{}) },
	} {
		go func() { errs <- call() }()
	}
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, a.Close())
	for range 4 {
		require.ErrorIs(t, <-errs, net.ErrClosed)
	}
	require.NoError(t, mem.Close())
	_ = b
}

func TestMemory(t *testing.T) {
	const n = 3*1024*1024 + 5
	a, b := pair(t, &sdrnet.Config{Link: badLink(3)})
	ctx := testContext(t)
	out, in := must(a.Alloc(n)), must(b.Alloc(n))
	for i := range out.Bytes() {
		out.Bytes()[i] = byte(i * 7 >> 3)
	}
	errs := make(chan error, 2)
	go func() { errs <- a.SendMemory(ctx, out, 0, n, sdrnet.SendOptions{Imm: 7, HasImm: true}) }()
	go func() { errs <- a.Send(ctx, []byte("beside it")) }()
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	m.Release()
	got, err := b.RecvMemory(ctx, in, 0, n)
	require.NoError(t, err)
	require.Equal(t, sdrnet.RecvResult{Length: n, Imm: 7, HasImm: true}, got)
	require.True(t, bytes.Equal(out.Bytes(), in.Bytes()))
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	require.ErrorIs(t, a.SendMemory(ctx, out, 1, n, sdrnet.SendOptions{}), sdr.ErrArgument)
	require.ErrorIs(t, a.SendMemory(ctx, nil, 0, n, sdrnet.SendOptions{}), sdr.ErrArgument)
	_, err = a.RecvMemory(ctx, nil, 0, n)
	require.ErrorIs(t, err, sdr.ErrArgument)
	require.NoError(t, out.Close())
	require.NoError(t, in.Close())
}

// TestPieceMissing: a message of which a piece has not come is an error of the peer's, and no shorter message.
func TestPieceMissing(t *testing.T) {
	for _, more := range []uint32{0, 2} {
		l := listen(t, nil)
		a, b := connect(t, l, nil)
		ctx := testContext(t)
		require.NoError(t, a.SendPiece(ctx, 10, true, 2))
		require.NoError(t, a.SendPiece(ctx, 10, false, more))
		_, err := b.Recv(ctx)
		require.ErrorIs(t, err, sdr.ErrMismatch)
		require.ErrorContains(t, err, "a piece missing")
	}
}

// TestGivenUpInTheMiddle: what still comes of a message that its sender gave up is dropped, and the next one is received.
func TestGivenUpInTheMiddle(t *testing.T) {
	a, b := pair(t, &sdrnet.Config{Link: linkemu.Config{Rate: 20 * units.Mbit}}) // on which the piece that is given up would take 100 ms
	ctx := testContext(t)
	ended, end := context.WithCancel(ctx)
	end()
	require.NoError(t, a.SendPiece(ctx, 10, true, 2))
	require.ErrorIs(t, a.SendPiece(ended, 256<<10, false, 1), context.Canceled)
	require.NoError(t, a.SendPiece(ctx, 10, false, 0))
	require.NoError(t, a.Send(ctx, []byte("next")))
	m, err := b.Recv(ctx)
	require.NoError(t, err)
	require.Equal(t, "next", string(m.Bytes()))
	m.Release()
}

// TestRateIsABound: what is sent is paced to the lower of Config.Rate and an emulated link's rate.
func TestRateIsABound(t *testing.T) {
	for _, c := range []struct{ rate, link, least, most units.Rate }{
		{10 * units.Mbit, 0, 1, 10 * units.Mbit},
		{10 * units.Mbit, units.Gbit, 1, 10 * units.Mbit},
		{units.Gbit, 10 * units.Mbit, 9 * units.Mbit, 10 * units.Mbit},
	} {
		a, _ := pair(t, &sdrnet.Config{Rate: c.rate, Link: linkemu.Config{Rate: c.link}})
		messages, memory := a.Stats()
		for _, got := range []units.Rate{messages.Rate, memory.Rate} {
			require.LessOrEqual(t, got, c.most)
			require.GreaterOrEqual(t, got, c.least)
		}
	}
}

// TestMoreInFlightThanMayBePosted: a link that holds more packets than a queue pair has connects all the same.
func TestMoreInFlightThanMayBePosted(t *testing.T) {
	link := linkemu.Config{RTT: 10 * units.Millisecond, Rate: 10 * units.Tbit}
	require.Greater(t, link.PacketsInFlight(4096), 1<<20)
	a, b := pair(t, &sdrnet.Config{Link: link})
	errs := make(chan error, 1)
	go func() { errs <- a.Send(testContext(t), []byte("all the same")) }()
	require.Equal(t, "all the same", recvText(t, b))
	require.NoError(t, <-errs)
}

// TestTooLong: a peer can't make this end allocate more than it said, to the byte, and learns what was too long.
func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		name         string
		limit        units.Bytes
		size, window int
		says         string
	}{
		{"a byte in the second buffer", 256 * units.KiB, 256<<10 + 1, 0, "a message of more than 262144 bytes is longer than the 262144 "},
		{"a byte in the middle of a buffer", 300 * units.KiB, 300<<10 + 1, 1, "a message of 307201 bytes is longer than the 307200 "},
		{"many buffers", units.MiB, 4 << 20, 2, "a message of more than 3932160 bytes is longer than the 1048576 "},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t, &sdrnet.Config{MaxMessage: c.limit, Window: c.window})
			a, b := connect(t, l, nil)
			ctx := testContext(t)
			sent := make(chan error, 1)
			go func() {
				if err := a.Send(ctx, make([]byte, c.limit)); err != nil {
					t.Error(err)
				}
				sent <- a.Send(ctx, make([]byte, c.size))
			}()
			m, err := b.Recv(ctx)
			require.NoError(t, err)
			require.EqualValues(t, c.limit, len(m.Bytes()))
			m.Release()
			for range 2 {
				_, err = b.Recv(ctx)
				require.ErrorIs(t, err, sdr.ErrTooLong)
				require.ErrorContains(t, err, c.says+"of Config.MaxMessage at its receiver (raise that")
			}
			require.Error(t, b.Send(ctx, nil), "the connection has failed")

			_, err = a.Recv(ctx)
			errs := []error{err, a.Send(ctx, nil)}
			if err := <-sent; err != nil { // all of it may have been in the receiver's buffers before
				errs = append(errs, err)
			}
			for i, err := range errs {
				var said *oob.PeerError
				require.ErrorAs(t, err, &said, "call %d", i)
				require.Contains(t, said.Reason, c.says)
				require.ErrorIs(t, err, sdr.ErrPeerClosed)
			}
			require.NoError(t, b.Close())
			_, err = b.Recv(ctx)
			require.ErrorIs(t, err, net.ErrClosed)
		})
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		cfg  sdrnet.Config
		says string
	}{
		{sdrnet.Config{Device: "userroce"}, `Config.Device is "userroce", which is no device of the kernel: leave it empty for user-space RoCEv2`},
		{sdrnet.Config{Window: 1000}, "Config.Window is 1000: choose 1 to 256"},
		{sdrnet.Config{BufferSize: 4*units.KiB - 1}, "Config.BufferSize is 4095 bytes: choose 4 KiB to 16 MiB"},
		{sdrnet.Config{MaxMessage: 256*units.KiB - 1}, "Config.MaxMessage is 262143 bytes: choose at least BufferSize, 262144"},
		{sdrnet.Config{MaxMessage: 64*units.GiB + 1}, "Config.MaxMessage is 68719476737 bytes: choose at most 64 GiB"},
		{sdrnet.Config{Silence: 100*units.Millisecond - 1}, "Config.Silence is 99.999999ms: choose at least 100 ms"},
		{sdrnet.Config{Rate: -1}, "can't be negative"},
		{sdrnet.Config{Device: "rxe0", UDPPort: 5000}, "uses port 4791 only"},
		{sdrnet.Config{PrivateData: make([]byte, 4097)}, "Config.PrivateData has 4097 bytes: at most 4 KiB"},
		{sdrnet.Config{Link: linkemu.Config{Drop: 2}}, "2"},
	} {
		require.ErrorContains(t, c.cfg.Validate(), c.says)
		_, err := sdrnet.Listen("127.0.0.1:0", &c.cfg)
		require.ErrorContains(t, err, c.says)
		_, err = sdrnet.Dial(context.Background(), "127.0.0.1:1", &c.cfg)
		require.ErrorContains(t, err, c.says)
	}
	short, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := sdrnet.Dial(short, "127.0.0.1:1", nil)
	require.True(t, errors.Is(err, context.Canceled), fmt.Sprint(err))
}
