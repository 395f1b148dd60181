// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
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
			if _, f := oracle.send(0, size); f == arrives {
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
	} {
		bad := good
		spoil(&bad)
		_, err := Start(-1, -1, bad, 0)
		require.ErrorContains(t, err, "choose")
	}
}
