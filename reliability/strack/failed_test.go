// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package strack_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/fabricdev"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// overFailedLinks are the times, shortest first, of a permutation of 16 MiB messages among the 16 hosts of a leaf–spine, each over 64
// channels that leaves hash onto what is left of their links: of two of four leaves one link of four is down. It tells too how much
// parity was sent.
func overFailedLinks(t *testing.T, c strack.Config, seed uint64) (times []units.Duration, parity uint64) {
	const (
		rate = 100 * units.Gbit
		base = 8 * us
		size = 16 * units.MiB
	)
	c.LineRate, c.BaseRTT, c.MinTimeout, c.Bitmap = rate, base, 200*us, true
	g, err := topo.Parse("leafspine:4x4x4,100G,1us,fail=2x1")
	require.NoError(t, err)
	bdp := rate.Bytes(base)
	net, err := fabricdev.New(g, fabricdev.Config{Fabric: fabric.Config{
		Routing: fabric.Routing{Mode: fabric.Entropy}, Buffer: fabric.Buffer{QueueLimit: 5 * bdp},
		ECN: []fabric.ECN{{KMin: bdp / 4, KMax: bdp * 3 / 4, PMax: 1}}, Seed: seed,
	}})
	require.NoError(t, err)
	hosts := g.Hosts()
	n := len(hosts)
	end, conn := make([]*sdr.Endpoint, n), make([]*reliability.Conn, n)
	for i, h := range hosts {
		dev, err := net.Device(h)
		require.NoError(t, err)
		end[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(seed), byte(i)})})
		require.NoError(t, err)
		conn[i], err = reliability.NewConn(end[i], sdr.QPConfig{MTU: 4096, Channels: 64}, reliability.Config{
			Rate: units.RateOf(4096, rate.Time(4160)), Congestion: congestion.Spec{Name: "none"}, Scheme: makeScheme(c)(),
		})
		require.NoError(t, err)
	}
	// Host i sends to i+n/2, which is two leaves further.
	peer := func(i int) int { return (i + n/2) % n }
	for i := range conn {
		require.NoError(t, conn[i].StartConnect(conn[peer(i)].Info()))
	}
	until := func(cond func() bool) {
		for limit, stuck := net.Now().Add(units.Second), 0; !cond(); stuck++ {
			now := net.Now()
			require.Less(t, now, limit)
			soonest := limit
			for _, x := range end {
				soonest = min(soonest, x.Progress(now))
			}
			net.Run(max(soonest, now))
			if net.Now() != now {
				stuck = 0
			}
			require.Less(t, stuck, 100_000)
		}
	}
	until(func() bool {
		for _, x := range conn {
			up, err := x.Connected()
			require.NoError(t, err)
			if !up {
				return false
			}
		}
		return true
	})
	src := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(src)
	dst, send, recv := make([][]byte, n), make([]*reliability.Transfer, n), make([]*reliability.Transfer, n)
	for i := range conn {
		dst[i] = make([]byte, size)
		to, err := end[i].RegisterMemory(dst[i], sdr.AccessRemoteWrite)
		require.NoError(t, err)
		recv[i], err = conn[i].StartRecv(to, 0, size)
		require.NoError(t, err)
	}
	ready := net.Now().Add(100 * base) // so that there are grants
	until(func() bool { return net.Now() >= ready })
	begun := net.Now()
	for i := range conn {
		from, err := end[i].RegisterMemory(src, 0)
		require.NoError(t, err)
		send[i], err = conn[i].StartSend(from, 0, size, reliability.SendOptions{})
		require.NoError(t, err)
	}
	done := make([]bool, n)
	until(func() bool {
		for i := range conn {
			if !done[i] && isDone(send[i]) && isDone(recv[peer(i)]) {
				done[i] = true
				times = append(times, net.Now().Sub(begun))
			}
		}
		return len(times) == n
	})
	for i := range conn {
		require.NoError(t, send[i].Err())
		require.NoError(t, recv[i].Err())
		require.Equal(t, src, dst[i], "content")
		parity += conn[i].Stats().Units.Parity
	}
	for _, x := range end {
		require.NoError(t, x.Close())
	}
	slices.Sort(times)
	return times, parity
}

// Where links have failed, parity costs messages of 16 MiB nothing: at every percentile they take at most 1.02 times as long.
func TestParityOverFailedLinks(t *testing.T) {
	const seed = 1
	bare, _ := overFailedLinks(t, strack.Config{}, seed)
	coded, parity := overFailedLinks(t, strack.Config{Parity: true}, seed)
	for i := range bare {
		t.Logf("message %2d by time: %v and %v with parity", i, bare[i], coded[i])
		require.LessOrEqual(t, float64(coded[i]), 1.02*float64(bare[i]))
	}
	require.Zero(t, parity)
}
