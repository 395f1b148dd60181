// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sdr-rdma/go-sdr/units"
)

// victimAddr makes the test binary play the process that TestKilledPeer kills.
const victimAddr = "SDR_OOB_TEST_VICTIM"

func TestMain(m *testing.M) {
	if addr := os.Getenv(victimAddr); addr != "" {
		victim(addr)
		return
	}
	goleak.VerifyTestMain(m)
}

func victim(addr string) {
	c, err := Dial(context.Background(), addr, Config{})
	if err == nil {
		_, err = c.Exchange(context.Background(), []byte("victim"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	time.Sleep(time.Minute) // to be killed long before
}

const (
	shortLimit = 150 * units.Millisecond
	// waitLimit bounds waits that end at once unless the code is wrong.
	waitLimit = 20 * time.Second
	// noticedBy is until when an end has noticed that the peer is gone, if it was told: long before a time limit of TCP would say so.
	noticedBy = DefaultDeadHostLimit / 2
)

// inTime requires that something, of which f returns how long it has taken, takes less than limit, the best of three: a machine that is
// short of processors may let any call wait.
func inTime(t *testing.T, limit time.Duration, f func() time.Duration) {
	t.Helper()
	var took []time.Duration
	for range 3 {
		d := f()
		if d < limit {
			return
		}
		took = append(took, d)
	}
	require.Fail(t, "it took too long, three times in a row", "%v, the limit is %v", took, limit)
}

// closing is how long closing c takes.
func closing(t *testing.T, c *Conn) time.Duration {
	start := time.Now()
	require.NoError(t, c.Close())
	return time.Since(start)
}

// descriptors is how many file descriptors this process has. Those of connections that nobody closes stay until the garbage
// collector finds them.
func descriptors() int {
	all, _ := os.ReadDir("/proc/self/fd") // without /proc none are counted
	return len(all)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.Cleanup(cancel)
	return ctx
}

// rejections collects what a listener reports about the peers that it turned away.
type rejections chan error

func (r rejections) config(cfg Config) Config {
	cfg.OnReject = func(_ net.Addr, err error) { r <- err }
	return cfg
}

func (r rejections) next(t *testing.T) error {
	select {
	case err := <-r:
		return err
	case <-time.After(waitLimit):
		require.FailNow(t, "the listener reported no bad peer")
		return nil
	}
}

func listen(t *testing.T, cfg Config) (*Listener, rejections) {
	r := make(rejections, 2*maxPending)
	l, err := Listen(testContext(t), "127.0.0.1:0", r.config(cfg))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l, r
}

// pair connects two ends over loopback.
func pair(t *testing.T, server, client Config) (s, c *Conn) {
	l, _ := listen(t, server)
	c, err := Dial(testContext(t), l.Addr().String(), client)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	s, err = l.Accept(testContext(t))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s, c
}

// rawPair connects an end to a bare TCP connection whose HELLO is done.
func rawPair(t *testing.T, cfg Config) (*Conn, *net.TCPConn) {
	l, _ := listen(t, cfg)
	nc := dialRaw(t, l.Addr().String())
	write(t, nc, appendFrame(nil, frame{kind: kindHello}))
	c, err := l.Accept(testContext(t))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	t.Cleanup(func() { nc.Close() }) // first, or Close would wait for the peer to go
	_, err = readFrame(nc, 0)
	require.NoError(t, err)
	return c, nc
}

func dialRaw(t *testing.T, addr string) *net.TCPConn {
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, nc.SetDeadline(time.Now().Add(waitLimit)))
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.TCPConn)
}

func write(t *testing.T, nc net.Conn, b []byte) {
	_, err := nc.Write(b)
	require.NoError(t, err)
}

// ended waits for the connection to end and returns the reason.
func ended(t *testing.T, c *Conn, within time.Duration) error {
	select {
	case <-c.Closed():
		return c.Err()
	case <-time.After(within):
		require.FailNow(t, "the connection is still open", "after %v", within)
		return nil
	}
}

// exchange runs both sides of an exchange and returns what each got.
func exchange(t *testing.T, s, c *Conn, fromS, fromC []byte) (atS, atC []byte) {
	ctx := testContext(t)
	done := make(chan error, 1)
	go func() {
		var err error
		atS, err = s.Exchange(ctx, fromS)
		done <- err
	}()
	atC, err := c.Exchange(ctx, fromC)
	require.NoError(t, err)
	require.NoError(t, <-done)
	return atS, atC
}
