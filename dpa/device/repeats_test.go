// SPDX-License-Identifier: Apache-2.0

//go:build dpa && flexio && linux && (amd64 || arm64)

package device

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// badLink loses, reorders and doubles packets, data and control alike.
var badLink = linkemu.Config{RTT: 4 * units.Millisecond, Rate: 200 * units.Mbit, Drop: 0.03, Reorder: 0.03, Duplicate: 0.03, Seed: 5}

// TestTransferWithRepeats moves transfers by selective repeat over a link that loses packets, to an Endpoint whose packets a
// device counts: all comes, bitmaps, marks and needed repeats are those of the engine on the host for each message, and what the
// sender counts as repeated for nothing is what the device didn't need.
func TestTransferWithRepeats(t *testing.T) {
	for _, c := range []struct {
		name    string
		mode    sr.Mode
		threads int
	}{{"sr", sr.RTO, 1}, {"sr-nack", sr.NACK, 1}, {"sr-nack, 4 threads", sr.NACK, 4}} {
		t.Run(c.name, func(t *testing.T) {
			const transfers, size = 4, 500*mtu + 77
			b := newBeside(openOffload(t, compileHandler(t, "", ""), Config{LogEntries: 8, Threads: c.threads}))
			conns, x := reliablePair(t, b, c.mode)
			for i := range transfers {
				x.data[0][i]++
				require.NoError(t, move(t, conns, x, size), "transfer %d", i)
				require.True(t, bytes.Equal(x.data[0][:size], x.data[1][:size]), "transfer %d", i)
			}
			u := conns[0].Stats().Units
			counts, err := b.Counts()
			require.NoError(t, err)
			x.close(t)
			require.NoError(t, b.err)
			require.Zero(t, b.missing)
			require.NotZero(t, b.needed, "no repeat was needed")
			require.Equal(t, b.needed, u.Retransmitted-u.Spurious, "repeats = needed + for nothing")
			require.NotZero(t, counts.Repairs)
			t.Logf("%d messages, %d chunks, %d repeats, %d of them needed; %+v", b.compared, b.chunks, u.Retransmitted, b.needed, counts)
		})
	}
}

// TestRepeatsCatchWrongHandler: a device that loses the packets that come as repeats doesn't get a transfer to its end, and is
// found out.
func TestRepeatsCatchWrongHandler(t *testing.T) {
	handler := compileHandler(t, "if (add(&t, m, offset >> 6, 1ull << (offset & 63), is_first) != 0)", "if (repeats == 1)")
	b := newBeside(openOffload(t, handler, Config{LogEntries: 8}))
	conns, x := reliablePair(t, b, sr.NACK)
	_ = move(t, conns, x, 500*mtu)
	x.close(t)
	require.ErrorContains(t, b.err, "the engine on the host has")
	t.Log(b.err)
}

// TestUnitsOfDevice: what a device that keeps packet bits can't serve is refused, with what to do.
func TestUnitsOfDevice(t *testing.T) {
	b := newBeside(openOffload(t, compileHandler(t, "", ""), Config{}))
	x := openEnds(t, b, *seed, linkemu.Config{})
	defer x.close(t)
	s, err := sr.New(sr.Config{})
	require.NoError(t, err)
	code, err := ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8})
	require.NoError(t, err)
	for _, c := range []struct {
		cfg  reliability.Config
		want error
		says string
	}{
		{reliability.Config{Scheme: s}, sdr.ErrArgument, "Unit"},
		{reliability.Config{Scheme: s, Unit: 6 * mtu}, sdr.ErrArgument, "Unit"},
		{reliability.Config{Scheme: code, Unit: 4 * mtu}, sdr.ErrNotSupported, "choose a scheme that repeats"},
	} {
		_, err := reliability.NewConn(x.ctx[1], qpConfig(), c.cfg)
		require.ErrorIs(t, err, c.want)
		require.ErrorContains(t, err, c.says)
	}
}

// reliablePair connects two Conns whose units are chunks.
func reliablePair(t *testing.T, b *beside, mode sr.Mode) (conns [2]*reliability.Conn, x *transfer) {
	t.Helper()
	x = openEnds(t, b, *seed, badLink)
	for i := range conns {
		s, err := sr.New(sr.Config{Mode: mode})
		require.NoError(t, err)
		q := qpConfig()
		conns[i], err = reliability.NewConn(x.ctx[i], q, reliability.Config{
			Scheme: s, Unit: q.Chunk, MessageSize: 64 * mtu, Rate: badLink.Rate * 9 / 10, NoProgress: 3 * units.Second,
		})
		require.NoError(t, err)
		x.qp[i] = conns[i].QP()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- conns[1].Connect(ctx, conns[0].Info()) }()
	require.NoError(t, conns[0].Connect(ctx, conns[1].Info()))
	require.NoError(t, <-done)
	return conns, x
}

// move sends n bytes and waits until both ends have done with them.
func move(t *testing.T, conns [2]*reliability.Conn, x *transfer, n units.Bytes) error {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	clear(x.data[1])
	done := make(chan error, 1)
	go func() {
		_, err := conns[1].Recv(ctx, x.mr[1], 0, n)
		done <- err
	}()
	err := conns[0].Send(ctx, x.mr[0], 0, n, reliability.SendOptions{})
	if e := <-done; err == nil {
		err = e
	}
	return err
}
