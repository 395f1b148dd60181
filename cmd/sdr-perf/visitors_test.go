// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/oobtest"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// escape is what nobody's terminal should get from a peer.
const escape = "\x1b[2J\x1b]0;owned\a\n  forged line"

// TestBadVisitors: whoever comes and is no client is turned away, and the server waits for one that is.
func TestBadVisitors(t *testing.T) {
	s, to := startServer(t, "--mtu", "1024")
	at := s.listening(t)
	knock := func() net.Conn {
		nc, err := net.Dial("tcp", at)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		_, err = nc.Write([]byte(oobtest.Hello))
		require.NoError(t, err)
		return nc
	}
	say := func(blob []byte) {
		c, err := oob.Dial(t.Context(), at, oob.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = c.Exchange(t.Context(), blob)
		require.NoError(t, err)
	}
	sayHello := func(change func(h *hello, p *params)) {
		p := defaultParams()
		h := hello{Version: protocolVersion, Run: 1, PathMTU: 4096, Plan: &p, Scheme: "sr", Size: units.KiB}
		change(&h, &p)
		b, err := json.Marshal(h)
		require.NoError(t, err)
		say(b)
	}
	require.NoError(t, knock().Close())
	say([]byte("neither JSON nor polite: " + escape))
	say([]byte(`{"version": "` + escape + `"}`))
	sayHello(func(h *hello, _ *params) { h.Version = 99 })
	sayHello(func(h *hello, _ *params) { h.Err = escape })
	sayHello(func(h *hello, _ *params) { h.Plan = nil })
	sayHello(func(h *hello, _ *params) { h.Size = 60 * units.TiB })
	sayHello(func(_ *hello, p *params) { p.Timeout = -1 })
	sayHello(func(_ *hello, p *params) { p.MTU, p.Schemes = 2048, []string{escape} })
	sayHello(func(h *hello, _ *params) { h.Scheme = escape })
	for range 2 * maxVisitors { // silent ones
		knock()
	}
	c := start(t, append(to, "--mtu", "2048", "-s", "1KiB", "-n", "1")...)
	c.ends(t, waitLimit, exitFailure)
	require.Contains(t, c.lastLine(), "--mtu is 1 KiB at the server and 2 KiB at the client")
	c = start(t, append(to, "--mtu", "1024", "-s", "1KiB", "-n", "1", "--warmup", "0")...)
	c.ends(t, waitLimit, 0)
	s.ends(t, waitLimit, 0)
	require.Contains(t, s.errors(), "turned a peer away")
	require.NotContains(t, s.errors(), "\x1b")
	require.NotContains(t, s.errors(), "\n  forged line")
	require.Less(t, strings.Count(s.errors(), "\n"), 50, "%s", s.errors())
}

// TestVisitorsHoldLittle: the server holds little of what visitors send who don't say what they want.
func TestVisitorsHoldLittle(t *testing.T) {
	s, _ := startServer(t)
	at := s.listening(t)
	resident := func() units.Bytes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
		require.NoError(t, err)
		pages, err := strconv.Atoi(strings.Fields(string(b))[1])
		require.NoError(t, err)
		return units.Bytes(pages * os.Getpagesize())
	}
	before := resident()
	oobtest.Flood(t, at, maxVisitors)
	require.Less(t, resident()-before, 32*units.MiB, "for %d visitors", maxVisitors)
}

// TestSizeBeyondMemory: a server refuses what it has no memory for before it takes any, says so, and goes on.
func TestSizeBeyondMemory(t *testing.T) {
	s, _ := startServer(t)
	c, err := oob.Dial(t.Context(), s.listening(t), oob.Config{})
	require.NoError(t, err)
	defer c.Close()
	p := defaultParams()
	free, ok := availableMemory("/")
	require.True(t, ok)
	ours := hello{Version: protocolVersion, Run: 1, PathMTU: 4096, Plan: &p, Scheme: "sr", Size: free - aside/2}
	_, err = exchange(t.Context(), c, 10*units.Second, ours)
	require.NoError(t, err)
	theirs, err := exchange(t.Context(), c, 10*units.Second, verdict{})
	require.NoError(t, err)
	require.Contains(t, theirs.Err, "of memory that are free here: choose a smaller size")
	select {
	case <-s.done:
		t.Fatal("the server has ended: " + s.errors())
	case <-time.After(100 * time.Millisecond):
	}
}

// TestPeerTextIsEscaped: a server's text reaches the client's terminal as one line of letters.
func TestPeerTextIsEscaped(t *testing.T) {
	l, err := oob.Listen(t.Context(), own(0)+":0", oob.Config{})
	require.NoError(t, err)
	defer l.Close()
	c := start(t, "--addr", own(1), "-s", "1KiB", l.Addr().String())
	s, err := l.Accept(t.Context())
	require.NoError(t, err)
	defer s.Close()
	_, err = exchange(t.Context(), s, 10*units.Second, hello{Version: protocolVersion, PathMTU: 4096, Err: strings.Repeat(escape, 1000)})
	require.NoError(t, err)
	c.ends(t, waitLimit, exitFailure)
	require.Contains(t, c.errors(), "the server: ?[2J?]0;owned??  forged line?[2J")
	require.NotContains(t, c.errors(), "\x1b")
	require.Equal(t, 1, strings.Count(c.errors(), "\n"))
	require.Less(t, len(c.errors()), 2*maxPeerText)
}

// TestOneConnectionOfARun: of the connections that a client opens for a point one is let in, whatever its run is called, and the server serves
// others when that one turns out to be none.
func TestOneConnectionOfARun(t *testing.T) {
	for _, run := range []uint64{0, 1} {
		s, to := startServer(t)
		p := defaultParams()
		var all [8]*oob.Conn
		for i := range all {
			var err error
			all[i], err = oob.Dial(t.Context(), s.listening(t), oob.Config{})
			require.NoError(t, err)
			defer all[i].Close()
			_, err = exchange(t.Context(), all[i], 10*units.Second, hello{Version: protocolVersion, Run: run, PathMTU: 4096, Plan: &p, Scheme: "sr", Size: units.KiB})
			require.NoError(t, err)
		}
		var in *oob.Conn
		require.Eventually(t, func() bool {
			n := 0
			for _, c := range all {
				if c.Err() == nil {
					n, in = n+1, c
				}
			}
			return n == 1
		}, waitLimit, 5*time.Millisecond)
		_, err := exchange(t.Context(), in, 10*units.Second, verdict{Err: "not any more"})
		require.NoError(t, err)
		<-in.Closed()
		client := start(t, append(to, "-s", "1KiB", "-n", "1", "--warmup", "0")...)
		client.ends(t, waitLimit, 0)
		s.ends(t, waitLimit, 0)
	}
}
