// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/rxetest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// helperEnv makes the test binary a child process of one of the tests below.
const helperEnv = "SDR_VERBS_HELPER"

// child runs one test function of this binary as a process of its own.
func child(name string, wrap ...string) *exec.Cmd {
	argv := append(wrap, os.Args[0], "-test.run=^"+name+"$", "-test.count=1")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), helperEnv+"="+name)
	return cmd
}

// TestKilledProcessLeavesNothing: the kernel takes everything back from a process that dies in the
// middle of its work.
func TestKilledProcessLeavesNothing(t *testing.T) {
	if os.Getenv(helperEnv) == t.Name() {
		load(t, -1)
		return
	}
	beforeA, beforeB := rxetest.Resources(t, devA), rxetest.Resources(t, devB)
	cmd := child(t.Name())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var line string
	_, err = fmt.Fscan(out, &line)
	require.NoError(t, err)
	require.Equal(t, "loaded", line)
	assert.NotEqual(t, beforeA, rxetest.Resources(t, devA))
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	assert.Eventually(t, func() bool {
		return assert.ObjectsAreEqual(beforeA, rxetest.Resources(t, devA)) && assert.ObjectsAreEqual(beforeB, rxetest.Resources(t, devB))
	}, waitLimit, 20*time.Millisecond, "objects of the dead process are left")
}

// load sends batches, for ever when n is negative, and says "loaded" after the first.
func load(t *testing.T, n int) {
	const batch = 16
	a, b := pair(t, endConfig{Type: verbs.UC})
	sends, recvs := make([]verbs.SendWR, batch), make([]verbs.RecvWR, batch)
	wcs := make([]verbs.WC, batch)
	for i := range sends {
		sends[i] = writeImm(a, b, i*4096, 4096, uint32(i))
	}
	sends[batch-1].Flags = verbs.SendSignaled
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for round := 0; round != n; round++ {
		if round == 1 {
			fmt.Println("loaded")
			_ = unix.Access("/traffic-begins", 0) // a mark for strace
		}
		_, err := b.QP.PostRecv(recvs)
		require.NoError(t, err)
		_, err = a.QP.PostSend(sends)
		require.NoError(t, err)
		for sent, got := 0, 0; sent < 1 || got < batch; {
			k, err := a.SCQ.Poll(wcs)
			require.NoError(t, err)
			sent += k
			k, err = b.RCQ.Poll(wcs)
			require.NoError(t, err)
			got += k
		}
	}
	_ = unix.Access("/traffic-ends", 0)
}

// TestSystemCalls: a batch of sends is one ioctl, posting receives and polling are no call at all,
// and nothing is ever written to a uverbs file.
func TestSystemCalls(t *testing.T) {
	const rounds = 11
	if os.Getenv(helperEnv) == t.Name() {
		load(t, rounds)
		return
	}
	log := t.TempDir() + "/strace.log"
	out, err := child(t.Name(), "/usr/bin/strace", "-f", "-y", "-o", log).CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	var thread string
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		tid, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		if strings.HasPrefix(call, "write(") || strings.HasPrefix(call, "writev(") {
			assert.NotContains(t, call, "/dev/infiniband", "write to a uverbs file")
		}
		switch {
		case strings.Contains(call, "/traffic-begins"):
			thread = tid
		case strings.Contains(call, "/traffic-ends"):
			thread = ""
		case tid == thread && thread != "" && !strings.HasPrefix(call, "<...") && !strings.HasPrefix(call, "---"):
			name, _, ok := strings.Cut(call, "(")
			if ok && strings.HasPrefix(name, "ioctl") {
				assert.Contains(t, call, "/dev/infiniband/uverbs", call)
			}
			counts[name]++
		}
	}
	t.Logf("system calls of %d rounds: %v", rounds-1, counts)
	assert.Equal(t, rounds-1, counts["ioctl"], "one doorbell for each batch")
	for name := range counts {
		// What the Go scheduler and signals may add; none of it touches the device.
		assert.Contains(t, []string{"ioctl", "futex", "rt_sigreturn", "tgkill", "getpid", "sched_yield", "nanosleep", "madvise"}, name)
	}
}

// addLink makes a veth pair and an rxe device on its first end, all gone after the test.
func addLink(t *testing.T, veth, peer, rdma string) netlink.Link {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = veth
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer}))
	link, err := netlink.LinkByName(veth)
	require.NoError(t, err)
	t.Cleanup(func() { _ = netlink.LinkDel(link) })
	other, err := netlink.LinkByName(peer)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(other))
	require.NoError(t, netlink.LinkSetUp(link))
	require.NoError(t, netlink.RdmaLinkAdd(rdma, "rxe", veth))
	return link
}

// TestDeviceRemoved: deleting the rxe link under an open device shows in Removed. Where the kernel waits
// for the last user, nothing is left when that closes; where it doesn't (since Linux 7), waits end, calls
// say what has happened, and a new device of that name and number isn't taken for the old one.
func TestDeviceRemoved(t *testing.T) {
	addLink(t, "veth8", "veth9", "rxe8")
	e, other := newEndWithoutGID(t, "rxe8"), newEndWithoutGID(t, "rxe8")
	ch, err := e.Ctx.CreateCompChannel()
	require.NoError(t, err)
	assert.False(t, e.Ctx.Removed())
	removed := make(chan error, 1)
	go func() { removed <- netlink.RdmaLinkDel("rxe8") }()
	require.Eventually(t, e.Ctx.Removed, waitLimit, time.Millisecond)
	_, err = verbs.Open("rxe8")
	assert.ErrorIs(t, err, verbs.ErrNoDevice)
	select {
	case err := <-removed:
		require.NoError(t, err)
		goneAtOnce(t, e, other, ch)
	case <-time.After(500 * time.Millisecond):
		t.Log("this kernel's rxe waits for its users")
		_, err = e.Ctx.QueryPort(1)
		require.NoError(t, err, "until then it works")
		require.NoError(t, other.Ctx.Close())
		require.NoError(t, e.Ctx.Close())
		require.NoError(t, <-removed)
	}
	require.NoError(t, other.Ctx.Close())
	require.NoError(t, e.Ctx.Close())
	_, maps := rxetest.Held(t)
	assert.Zero(t, maps)
}

// goneAtOnce looks at two ends of a device that is no longer there.
func goneAtOnce(t *testing.T, e, other *end, ch *verbs.CompChannel) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	var last verbs.AsyncEvent
	for {
		event, err := e.Ctx.WaitEvent(ctx)
		if err != nil {
			assert.ErrorIs(t, err, verbs.ErrRemoved)
			break
		}
		last = event
	}
	assert.Equal(t, verbs.EventDeviceFatal, last.Type)
	_, err := ch.Wait(ctx)
	assert.ErrorIs(t, err, verbs.ErrRemoved)
	assert.ErrorIs(t, e.SCQ.RequestNotify(false), verbs.ErrRemoved)
	_, err = e.Ctx.QueryPort(1)
	assert.ErrorIs(t, err, verbs.ErrRemoved)
	assert.ErrorContains(t, err, "the device was removed (close it and open it again when it is back)")
	assert.NoError(t, e.QP.Close(), "it has gone with its device")

	require.NoError(t, netlink.RdmaLinkAdd("rxe8", "rxe", "veth8"))
	again, err := verbs.Open("rxe8")
	require.NoError(t, err)
	assert.Equal(t, other.Ctx.Info().Uverbs, again.Info().Uverbs, "the new device has the old one's number, or this proves nothing")
	assert.True(t, other.Ctx.Removed(), "nobody has asked before")
	assert.False(t, again.Removed())
	require.NoError(t, again.Close())
}

// TestPortEvents: an interface that goes down and up again is an event of the port.
func TestPortEvents(t *testing.T) {
	link := addLink(t, "veth8", "veth9", "rxe8")
	c, err := verbs.Open("rxe8")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	next := func(want verbs.EventType) {
		t.Helper()
		for {
			e, err := c.WaitEvent(ctx)
			require.NoError(t, err, "waiting for %v", want)
			if e.Type == want {
				assert.Equal(t, 1, e.Port)
				return
			}
		}
	}
	require.NoError(t, netlink.LinkSetDown(link))
	next(verbs.EventPortError)
	p, err := c.QueryPort(1)
	require.NoError(t, err)
	assert.Equal(t, verbs.PortDown, p.State)
	require.NoError(t, netlink.LinkSetUp(link))
	next(verbs.EventPortActive)
}

func newEndWithoutGID(t *testing.T, dev string) *end {
	t.Helper()
	ctx, err := verbs.Open(dev)
	require.NoError(t, err)
	t.Cleanup(func() { _ = ctx.Close() })
	e := &end{Ctx: ctx}
	e.PD, err = ctx.AllocPD()
	require.NoError(t, err)
	e.SCQ, err = ctx.CreateCQ(16, nil)
	require.NoError(t, err)
	e.QP, err = e.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.SCQ, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
	require.NoError(t, err)
	return e
}

// TestImpairedLink: over a link that loses, doubles, reorders and corrupts packets, every completion
// of a one-packet message still tells the truth about its bytes. Each message has its own place, so that
// one that comes late is judged like the others.
func TestImpairedLink(t *testing.T) {
	const size, batch, rounds = 4096, 32, 20
	const total = batch * rounds
	a, b := pair(t, endConfig{Type: verbs.UC, Depth: 2048, Buffer: total * size})
	undo := rxetest.Impair(t, netlink.NetemQdiscAttrs{Latency: 2000, Loss: 5, Duplicate: 3, ReorderProb: 10, Gap: 5, CorruptProb: 2}, "veth0", "veth1")
	t.Cleanup(func() { require.NoError(t, undo()) })
	fill(a.Buf, 77)
	postRecvs(t, b, 2*total) // twice as many as needed, for the doubles
	for round := range rounds {
		sends := make([]verbs.SendWR, batch)
		for i := range sends {
			n := round*batch + i
			sends[i] = writeImm(a, b, n*size, size, uint32(n))
		}
		sends[batch-1].Flags = verbs.SendSignaled
		n, err := a.QP.PostSend(sends)
		require.NoError(t, err)
		require.Equal(t, batch, n)
		poll(t, a.SCQ, 1)
	}
	seen := map[uint32]bool{}
	wcs := make([]verbs.WC, 64)
	for last := time.Now(); time.Since(last) < 500*time.Millisecond; {
		k, err := b.RCQ.Poll(wcs)
		require.NoError(t, err)
		for _, wc := range wcs[:k] {
			last = time.Now()
			require.Equal(t, verbs.WCSuccess, wc.Status)
			require.Less(t, wc.Imm, uint32(total))
			seen[wc.Imm] = true
			at := int(wc.Imm) * size
			require.True(t, bytes.Equal(a.Buf[at:at+size], b.Buf[at:at+size]), "message %d", wc.Imm)
		}
	}
	t.Logf("%d of %d messages arrived", len(seen), total)
	assert.Less(t, len(seen), total, "the link loses")
	assert.Greater(t, len(seen), total/2)
}
