// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestRawBidirectional sends long raw messages in both directions at once on a clean path. No acknowledgement paces a raw
// send, so a worker has to poll between its bursts: one that sends 16 MiB between two polls loses 77 % of the packets that
// come in meanwhile. What is still lost, because the machine is slow, the sockets count.
func TestRawBidirectional(t *testing.T) {
	size := 128 * units.MiB
	if race.Enabled {
		size = 16 * units.MiB // the race detector slows the receiver more than the kernel
	}
	lost := 1.0
	for try := 0; try < 3 && lost > 0.3; try++ {
		lost = min(lost, lostBidirectional(t, size))
	}
	require.LessOrEqual(t, lost, 0.3, "of the packets are lost, three times in a row")
}

// lostBidirectional returns the fraction of the packets that didn't arrive.
func lostBidirectional(t *testing.T, size units.Bytes) float64 {
	s := openSockets(t, 1)
	defer s.close(t)
	q := s.connect(t, sdr.QPConfig{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var recvs [2]sdr.RecvHandle
	var sends [2]sdr.SendHandle
	var memory [][]byte
	for e := range 2 {
		dst := s.mr(t, e, size)
		clear(dst.Bytes()) // so that the first packets need not wait for pages
		memory = append(memory, dst.Bytes())
		var err error
		recvs[e], err = q[e].PostRecv(dst, 0, size)
		require.NoError(t, err)
	}
	for e := range 2 {
		src := s.mr(t, e, size)
		memory = append(memory, src.Bytes())
		var err error
		sends[e], err = q[e].PostSend(src, 0, size, sdr.SendOptions{})
		require.NoError(t, err)
	}
	for e := range 2 {
		require.NoError(t, sends[e].Wait(ctx))
	}
	var total, arrived int
	var overflows uint64
	count := func() {
		total, arrived, overflows = 0, 0, 0
		for e := range 2 {
			p, err := recvs[e].Packets()
			require.NoError(t, err)
			n, err := p.Count(), p.Err()
			require.NoError(t, err)
			total, arrived = total+p.Len(), arrived+n
			overflows += s.dev[e].Stats().Drops[backend.DropSocketFull]
		}
	}
	// Take what is under way: until all has arrived, or nothing more does and the sockets say why.
	for before, deadline := -1, time.Now().Add(5*time.Second); time.Now().Before(deadline); before = arrived {
		count()
		if arrived == total || arrived == before && overflows > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	lost := float64(total-arrived) / float64(total)
	t.Logf("%.2f %% of %d packets lost, %d drops counted at the sockets", 100*lost, total, overflows)
	if arrived < total {
		require.NotZero(t, overflows, "packets were lost and no counter says so")
	}
	for e := range 2 {
		finish(t, recvs[e])
	}
	s.close(t)
	for _, m := range memory {
		require.NoError(t, sdr.FreeBuffer(m))
	}
	return lost
}
