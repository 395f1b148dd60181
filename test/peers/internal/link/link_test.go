// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// plug returns a descriptor for a link and the other end of it.
func plug(t *testing.T) (inside int, outside *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	for _, fd := range fds {
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 2<<20))
	}
	outside = os.NewFile(uintptr(fds[1]), "plug")
	t.Cleanup(func() {
		outside.Close()
		unix.Close(fds[0])
	})
	require.NoError(t, outside.SetDeadline(time.Now().Add(20*time.Second)))
	return fds[0], outside
}

func start(t *testing.T, c Config) (l *Link, a, b *os.File) {
	t.Helper()
	ain, a := plug(t)
	bin, b := plug(t)
	l, err := Start(ain, bin, c, 0)
	require.NoError(t, err)
	return l, a, b
}

func numbered(i, size int) []byte {
	p := make([]byte, size)
	binary.BigEndian.PutUint32(p, uint32(i))
	p[size-1] = byte(i)
	return p
}

// What arrives is exactly what the wire, asked alone, doesn't lose, in order, and
// never early. How late it may be depends on the machine's other load, so only the
// best packet is asked for that.
func TestLink(t *testing.T) {
	c := Config{Rate: 1e8, Delay: 20 * time.Millisecond, Queue: 1 << 20, Drop: 0.2, Seed: 3}
	for way := range 2 {
		const n, size = 200, 1500
		oracle := newWire(c, uint64(way))
		var want []int
		for i := range n {
			if _, f := oracle.send(0, size, false); f == arrives {
				want = append(want, i)
			}
		}
		require.Less(t, len(want), n)
		l, from, to := start(t, c)
		if way == 1 {
			from, to = to, from
		}
		begun := time.Now()
		go func() {
			for i := range n {
				if _, err := from.Write(numbered(i, size)); err != nil {
					t.Error(err)
				}
			}
		}()
		best := time.Hour
		buf := make([]byte, MaxPacket)
		for _, i := range want {
			k, err := to.Read(buf)
			require.NoError(t, err)
			require.Equal(t, numbered(i, size), buf[:k])
			spent := time.Since(begun)
			least := c.Delay + time.Duration((i+1)*size*8*10) // at 10 ns a bit
			require.GreaterOrEqual(t, spent, least, "packet %d is early", i)
			best = min(best, spent-least)
		}
		require.Less(t, best, 5*time.Second, "even the best packet was late")
		require.NoError(t, l.Close())
		ab, ba := l.Counters()
		if way == 1 {
			ab, ba = ba, ab
		}
		require.Equal(t, Counters{}, ba)
		ab.Late, ab.Latest = 0, 0
		require.Equal(t, Counters{Packets: n, Bytes: n * size, Lost: uint64(n - len(want))}, ab)
	}
}

func TestLinkQueueOverflows(t *testing.T) {
	l, a, _ := start(t, Config{Rate: 1e6, Delay: 0, Queue: MaxPacket, Seed: 1})
	const n = 20 // of 12 ms each; six fit
	for i := range n {
		_, err := a.Write(numbered(i, 1500))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { ab, _ := l.Counters(); return ab.Packets == n }, 10*time.Second, time.Millisecond)
	ab, _ := l.Counters()
	require.Positive(t, ab.Overflowed)
	require.NoError(t, l.Close())
}

func TestConfigRefused(t *testing.T) {
	good := Config{Rate: 1e9, Delay: time.Millisecond, Queue: 1 << 20}
	require.NoError(t, good.check())
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Rate = 0 },
		func(c *Config) { c.Rate = 1e12 },
		func(c *Config) { c.Delay = -1 },
		func(c *Config) { c.Queue = 100 },
		func(c *Config) { c.Drop = -0.1 },
		func(c *Config) { c.Drop = 1.1 },
		func(c *Config) { c.Early.From = -1 },
		func(c *Config) { c.Early = Early{From: 2, To: 1} },
		func(c *Config) { c.Flows = make([]Flow, 1) },
		func(c *Config) { c.Changes = []Change{{At: 2}, {At: 1}} },
		func(c *Config) { c.Changes = []Change{{Rate: 1}} },
	} {
		bad := good
		spoil(&bad)
		_, err := Start(-1, -1, bad, 0)
		require.ErrorContains(t, err, "choose")
	}
}

// packetOf is an IPv4 header with a right checksum, and n bytes in all.
func packetOf(src, dst byte, tos byte, n int) []byte {
	b := make([]byte, n)
	b[0], b[1], b[15], b[19] = 0x45, tos, src, dst
	binary.BigEndian.PutUint16(b[checksumAt:], ^checksum(b[:headerSize]))
	return b
}

func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// A mark leaves the header's checksum right.
func TestMark(t *testing.T) {
	for tos := range 256 {
		b := packetOf(byte(tos*7), 3, byte(tos), 64)
		mark(b)
		require.Equal(t, byte(tos)|3, b[1])
		require.Equal(t, uint16(0xffff), checksum(b[:headerSize]), "TOS %d", tos)
	}
}

// Each flow has a delay and records of its own, and after a change of the route those behind overtake.
func TestFlowsAndRoutes(t *testing.T) {
	flow := func(x byte, d time.Duration) Flow { return Flow{netip.AddrFrom4([4]byte{10, 0, 0, x}), d} }
	c := Config{
		Rate: 8e9, Queue: 1 << 20, Flows: []Flow{flow(10, 300*time.Millisecond), flow(11, 20*time.Millisecond)},
		Changes: []Change{{At: 100 * time.Millisecond, Rate: 8e8, Delay: time.Millisecond}}, // 10 ns a byte instead of one
	}
	w := newWay(-1, -1, -1, &c, 0)
	w.begin.Store(1)
	var n Counters
	w.change(1, &n)
	w.take(packetOf(10, 200, 0, 1000), 1, &n)
	w.take(packetOf(200, 11, 0, 1000), 1, &n) // the other way is told by the receiver
	w.take(packetOf(9, 200, 0, 1000), 1, &n)  // nobody's: the first flow's
	w.take(packetOf(11, 200, 0, 8000), 100*ms-3999, &n)
	w.change(100*ms, &n)
	require.Len(t, w.lanes, 2)
	w.change(100*ms+1, &n)
	require.Len(t, w.lanes, 4)
	w.take(packetOf(11, 200, 0, 1000), 100*ms+1, &n)
	var order []byte
	var due []int64
	for l := w.next(); l != nil; l = w.next() {
		order = append(order, l.content(l.oldest())[lastOfSource])
		due = append(due, l.due())
		l.drop()
	}
	require.Equal(t, []byte{200, 11, 11, 10, 9}, order)
	// Of the 8000 bytes 4000 waited when the rate fell.
	require.Equal(t, []int64{20*ms + 2001, 100*ms + 1 + 50000 + ms, 120*ms + 1 + 40000, 300*ms + 1001, 300*ms + 3001}, due)
	require.EqualValues(t, 2, w.records.flows[0][0].Packets)
	require.EqualValues(t, 2*time.Microsecond, w.records.flows[1][0].Wait)
	require.EqualValues(t, 5, n.Packets)
}

// A link that is down loses what waits and what comes.
func TestDarkLink(t *testing.T) {
	l, a, b := start(t, Config{
		Rate: 1e6, Queue: 1 << 20, Seed: 1,
		Changes: []Change{{At: 0, Rate: 0}, {At: 200 * time.Millisecond, Rate: 1e9}},
	})
	l.Begin()
	for i := range 10 { // of 12 ms each
		_, err := a.Write(numbered(i, 1500))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { ab, _ := l.Counters(); return ab.Lost == 10 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := a.Write(numbered(77, 1500))
		require.NoError(t, err)
		require.NoError(t, b.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		n, err := b.Read(make([]byte, MaxPacket))
		return err == nil && n == 1500
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, l.Close())
}

// What waits when the link goes down is lost, what has left the queue arrives.
func TestDarkLosesWhatWaits(t *testing.T) {
	c := Config{Rate: 8e9, Delay: 10 * time.Millisecond, Queue: 1 << 20, Changes: []Change{{At: 5 * time.Microsecond}}} // 1 ns a byte
	w := newWay(-1, -1, -1, &c, 0)
	w.begin.Store(1)
	var n Counters
	w.change(1, &n)
	for range 4 {
		w.take(packetOf(10, 200, 0, 2000), 1, &n)
	}
	w.change(5001, &n)
	require.EqualValues(t, 2, n.Lost)
	require.EqualValues(t, 2, w.records.flows[0][0].Lost)
	require.EqualValues(t, 2001, w.lanes[0].oldest().left)
	w.lanes[0].drop()
	require.EqualValues(t, 4001, w.lanes[0].oldest().left)
	w.lanes[0].drop()
	require.Nil(t, w.next())
}
