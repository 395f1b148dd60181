// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/transfertest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// smallSlots has few slots, so that messages soon come round to the same ones.
var smallSlots = sdr.QPConfig{
	MTU: 1024, Channels: 2, Generations: 4, MSL: 5 * ms, Split: sdr.Split{SlotBits: 6, OffsetBits: 22, FragmentBits: 4},
}

// TestManyMessages: messages with different content, several at a time, until slots and generations
// have come round many times.
func TestManyMessages(t *testing.T) {
	total := 10_000
	if testing.Short() {
		total = 2048
	}
	const together, size = 16, 3000
	c := endpoints(t)
	q := connect(t, c, smallSlots)
	src, dst := transfertest.Memory(t, c[0], together*size, 3), transfertest.Memory(t, c[1], together*size, 0)
	ctx := deadline(t)
	for first := 0; first < total; first += together {
		var r [together]sdr.RecvHandle
		var s [together]sdr.SendHandle
		for i := range together {
			at := units.Bytes(i) * size
			src.Bytes()[at] = byte(first >> 4)
			src.Bytes()[at+size-1] = byte(first>>8) ^ byte(i)
			r[i] = post(t, q[1], dst, at, size)
			var err error
			s[i], err = q[0].PostSend(src, at, size, sdr.SendOptions{})
			require.NoError(t, err)
		}
		for i := range together {
			require.NoError(t, r[i].WaitArrived(ctx), "message %d", first+i)
			require.NoError(t, s[i].Wait(ctx))
			require.NoError(t, r[i].Complete())
			require.NoError(t, r[i].Wait(ctx))
		}
		require.True(t, bytes.Equal(src.Bytes(), dst.Bytes()), "content of messages from %d on", first)
	}
	require.NoError(t, src.Close())
	require.NoError(t, dst.Close())
}

// post posts a receive as soon as its slot is free.
func post(t testing.TB, q *sdr.QP, mr *sdr.MR, at, n units.Bytes) sdr.RecvHandle {
	t.Helper()
	for {
		r, err := q.PostRecv(mr, at, n)
		if !errors.Is(err, sdr.ErrAgain) {
			require.NoError(t, err)
			return r
		}
		runtime.Gosched()
	}
}

// TestEarlyCompletionUnderFire completes messages while their packets arrive: when the fence is down,
// nothing changes the buffer any more, and the connection goes on.
func TestEarlyCompletionUnderFire(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 60
	}
	const size = 256 * units.KiB
	c := endpoints(t)
	cfg := smallSlots
	cfg.MTU, cfg.Chunk = 4096, 4096
	q := connect(t, c, cfg)
	src, dst := transfertest.Memory(t, c[0], size, 7), transfertest.Memory(t, c[1], size, 0)
	ctx := deadline(t)
	cut := 0
	for round := range rounds {
		r := post(t, q[1], dst, 0, size)
		s, err := q[0].PostSend(src, 0, size, sdr.SendOptions{})
		require.NoError(t, err)
		for n := 0; n <= round%32; { // let some packets come
			n, err = r.Bitmap().Count(), r.Bitmap().Err()
			require.NoError(t, err)
			runtime.Gosched()
		}
		require.NoError(t, r.Complete())
		require.NoError(t, r.Wait(ctx))
		for i := range dst.Bytes() {
			dst.Bytes()[i] = 0x5a
		}
		require.NoError(t, s.Wait(ctx))
		if !untouched(dst.Bytes()) {
			t.Fatalf("round %d: a packet changed the buffer of a completed message", round)
		}
		cut++
	}
	t.Logf("%d messages completed under fire", cut)
	require.NoError(t, q[0].Err())
	require.NoError(t, q[1].Err())
}

func untouched(b []byte) bool {
	for _, v := range b {
		if v != 0x5a {
			return false
		}
	}
	return true
}

// TestSelectiveRepeat: transfers over a long, bad link arrive whole, in both directions.
func TestSelectiveRepeat(t *testing.T) {
	size := 8 * units.MiB
	if testing.Short() {
		size = units.MiB
	}
	c := endpoints(t)
	var conns [2]*reliability.Conn
	for i := range conns {
		var err error
		conns[i], err = newConn(c[i], sdr.QPConfig{MTU: 4096, MSL: 50 * ms})
		require.NoError(t, err)
	}
	ctx := deadline(t)
	errs := make(chan error, 2)
	for i := range conns {
		go func() { errs <- conns[i].Connect(ctx, conns[1-i].Info()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	impair(t, wan, "veth0", "veth1")
	transfertest.Bidirectional(ctx, t, c, conns, size)
	for _, x := range conns {
		require.NoError(t, x.Close())
	}
}
