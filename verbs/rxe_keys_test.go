// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// deadKey registers and deregisters a region of b, and returns its key.
func deadKey(t *testing.T, b *end) uint32 {
	t.Helper()
	mr, err := b.PD.RegisterMR(b.Buf, allAccess)
	require.NoError(t, err)
	require.NoError(t, mr.Close())
	return mr.RKey()
}

// TestDeadKeyIsSilent: without an SRQ a write through a dead key changes nothing, completes
// nothing and takes no receive, and the QP goes on (rxe_resp.c, class E).
func TestDeadKeyIsSilent(t *testing.T) {
	a, b := pair(t, endConfig{Type: verbs.UC})
	dead := deadKey(t, b)
	postRecvs(t, b, 1)
	fill(a.Buf[:4096], 1)
	wr := writeImm(a, b, 0, 4096, 1)
	wr.RKey = dead
	assert.Equal(t, verbs.WCSuccess, send(t, a, wr).Status, "UC does not tell the sender")
	quiet(t, b.RCQ, "dead key")
	assert.Equal(t, make([]byte, 4096), b.Buf[:4096])
	attr, err := b.QP.Query(verbs.MaskState)
	require.NoError(t, err)
	assert.Equal(t, verbs.RTS, attr.State)

	send(t, a, writeImm(a, b, 0, 4096, 2))
	wc := poll(t, b.RCQ, 1)[0]
	assert.EqualValues(t, 2, wc.Imm, "the receive was left for the next message")
	assert.Equal(t, a.Buf[:4096], b.Buf[:4096])
}

// TestDeadKeyWithSRQ: with an SRQ the same write yields an error completion and takes a receive
// (class D), but the QP goes on.
func TestDeadKeyWithSRQ(t *testing.T) {
	a, b := newEnd(t, devA, endConfig{Type: verbs.UC}), newEnd(t, devB, endConfig{Type: verbs.UC, SRQ: true})
	connect(t, a, b, verbs.MTU4096)
	dead := deadKey(t, b)
	postRecvs(t, b, 2)
	fill(a.Buf[:4096], 1)
	wr := writeImm(a, b, 0, 4096, 1)
	wr.RKey = dead
	send(t, a, wr)
	wc := poll(t, b.RCQ, 1)[0]
	assert.Equal(t, verbs.WCRemoteAccessErr, wc.Status)
	assert.Equal(t, make([]byte, 4096), b.Buf[:4096])

	send(t, a, writeImm(a, b, 0, 4096, 2))
	wc = poll(t, b.RCQ, 1)[0]
	assert.Equal(t, verbs.WCSuccess, wc.Status)
	assert.EqualValues(t, 1, wc.WRID, "the dead key took receive 0")
}

// revocation is a way to take a key away from the peer.
type revocation struct {
	expose func() uint32
	revoke func()
}

// lateWrites attacks a revocation: while a stream of packets is written through the key, it
// revokes, and at once marks the end of the buffer. A copy that was under way then, and that the
// revocation did not wait for, destroys the mark. It returns the number of rounds in which a
// packet was certainly in flight, and in how many the mark was lost.
func lateWrites(t *testing.T, a, b *end, rounds int, r revocation) (hit, late int) {
	t.Helper()
	const size, batch = 4096, 60
	const mark = 0x5a
	sends := make([]verbs.SendWR, batch)
	for round := range rounds {
		key := r.expose()
		for i := range sends {
			sends[i] = writeImm(a, b, 0, size, uint32(i))
			sends[i].RKey, sends[i].Flags = key, 0
			sends[i].Local = a.MR.SGE(i*size, size)
			fill(a.Buf[i*size:i*size+8], uint64(round<<8|i))
		}
		sends[batch-1].Flags = verbs.SendSignaled
		drain(t, b, batch)
		posted := make(chan error)
		go func() {
			n, err := a.QP.PostSend(sends)
			if err == nil && n != batch {
				err = verbs.ErrQueueFull
			}
			posted <- err
		}()
		// Let some packets arrive first; how many differs by round.
		waitArrivals(b, 1+round%16)
		r.revoke()
		tail := b.Buf[size-64 : size]
		for i := range tail {
			tail[i] = mark
		}
		require.NoError(t, <-posted)
		poll(t, a.SCQ, 1)
		// The last packet has left; let the receiver's queue run empty.
		time.Sleep(2 * time.Millisecond)
		if arrivals(b) < batch {
			hit++
		}
		for _, v := range tail {
			if v != mark {
				late++
				break
			}
		}
	}
	return hit, late
}

// drain empties the receive CQ and fills the receive queue.
func drain(t *testing.T, b *end, n int) {
	t.Helper()
	arrivals(b)
	received[b] = 0
	_, err := b.QP.PostRecv(make([]verbs.RecvWR, n))
	if err != nil {
		require.ErrorIs(t, err, verbs.ErrQueueFull)
	}
}

// received counts the completions of a round.
var received = map[*end]int{}

func arrivals(b *end) int {
	var wcs [64]verbs.WC
	for {
		n, err := b.RCQ.Poll(wcs[:])
		received[b] += n
		if n == 0 || err != nil {
			return received[b]
		}
	}
}

func waitArrivals(b *end, n int) {
	for end := time.Now().Add(100 * time.Millisecond); arrivals(b) < n && time.Now().Before(end); {
		runtime.Gosched()
	}
}

// TestDeregistrationIsAFence: when MR.Close returns, no packet can change the memory any more, not
// even one that was being copied. Unbinding a window, by contrast, does not wait; it is the control
// that shows that the attack can see a late write, and is logged only, for it depends on timing.
func TestDeregistrationIsAFence(t *testing.T) {
	if runtime.NumCPU() == 1 {
		t.Skip("with one processor the doorbell sends the whole stream before anybody can revoke")
	}
	rounds := 3000
	if testing.Short() {
		rounds = 400
	}
	a, b := pair(t, endConfig{Type: verbs.UC, Access: allAccess | verbs.AccessMWBind})
	require.True(t, b.Ctx.DeregisterFences(), "kernels before 6.0 don't promise it")
	for i := range a.Buf {
		a.Buf[i] = 0xee
	}
	var mr *verbs.MR
	hit, late := lateWrites(t, a, b, rounds, revocation{
		expose: func() uint32 {
			var err error
			mr, err = b.PD.RegisterMR(b.Buf[:4096], allAccess)
			require.NoError(t, err)
			return mr.RKey()
		},
		revoke: func() { require.NoError(t, mr.Close()) },
	})
	t.Logf("deregistration: %d of %d rounds cut a stream, %d late writes", hit, rounds, late)
	assert.Greater(t, hit, 10, "the attack must hit a stream of packets")
	assert.Zero(t, late, "a packet was written after MR.Close had returned")

	mw, err := b.PD.AllocMW(verbs.MWType1)
	require.NoError(t, err)
	bind := func(n int) uint32 {
		wr, err := mw.BindWR(b.MR, 0, n, verbs.AccessRemoteWrite)
		require.NoError(t, err)
		require.Equal(t, verbs.WCSuccess, send(t, b, wr).Status)
		return mw.RKey()
	}
	hit, late = lateWrites(t, a, b, rounds, revocation{expose: func() uint32 { return bind(4096) }, revoke: func() { bind(0) }})
	t.Logf("control, unbinding a window: %d of %d rounds cut a stream, %d late writes", hit, rounds, late)
}
