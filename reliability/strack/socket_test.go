// SPDX-License-Identifier: Apache-2.0

package strack_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A phantom is a queue of each path that drains at nine tenths of its rate, and marks what finds more in it than
// mark: the packets of a link that is nearly full (Alizadeh et al., "Less Is More", NSDI 2012). A path is a source port.
type phantom struct {
	mu    sync.Mutex
	rates []units.Rate
	mark  units.Bytes
	paths map[uint16]*phantomPath
}

type phantomPath struct {
	queue           units.Bytes
	at              time.Time
	packets, marked int
}

func (*phantom) Outbound([]backend.WirePacket) {}

func (q *phantom) Inbound(batch []backend.WirePacket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for i := range batch {
		w := &batch[i]
		if w.TOS&3 == 0 || len(w.Data) < 1000 {
			continue // not ECN-capable, or no data
		}
		p := q.paths[w.Src.Port()]
		if p == nil {
			p = &phantomPath{at: now}
			q.paths[w.Src.Port()] = p
		}
		p.packets++
		p.queue = max(p.queue-q.rate().Bytes(now.Sub(p.at))*9/10, 0) + units.Bytes(len(w.Data))
		p.at = now
		if p.queue > q.mark {
			w.TOS |= 3
			p.marked++
		}
	}
}

// rate is that of most paths: the slow one's queue never builds.
func (q *phantom) rate() units.Rate { return q.rates[0] }

// STrack over sockets, through a link whose paths are unequal, and mark: one has a tenth of the others' rate, one goes
// down on the way. What arrives is right, marks have been heard, and no path has been left out.
func TestMarksAndUnequalPathsOverSockets(t *testing.T) {
	const size = 4 * units.MiB
	rates := []units.Rate{40 * units.Mbit, 40 * units.Mbit, 4 * units.Mbit, 40 * units.Mbit}
	marker := &phantom{rates: rates, mark: 4 * units.KiB, paths: map[uint16]*phantomPath{}}
	pid := os.Getpid()
	var dev [2]backend.Device
	var end [2]*sdr.Endpoint
	var conn [2]*reliability.Conn
	for i := range 2 {
		addr := netip.AddrFrom4([4]byte{127, byte(64 + pid>>14&63), byte(pid >> 7 & 127), byte(pid&127<<1 | i)})
		cfg := userroce.Config{Addr: addr, ECN: true}
		if i == 1 {
			cfg.Wire = marker
		}
		raw, err := userroce.Open(cfg)
		require.NoError(t, err)
		dev[i], err = linkemu.Wrap(raw, linkemu.Config{
			RTT: 5 * ms, ChannelRate: rates, ChannelDownAt: []units.Duration{0, 200 * ms, 0, 0}, Queue: 128 * units.KiB, Seed: uint64(i + 1),
		})
		require.NoError(t, err)
		end[i], err = sdr.NewEndpoint(dev[i], sdr.EndpointConfig{})
		require.NoError(t, err)
		conn[i], err = reliability.NewConn(end[i], sdr.QPConfig{MTU: 1024, Channels: 4},
			reliability.Config{Rate: 124 * units.Mbit, Congestion: congestion.Spec{Name: "none"}, Scheme: makeScheme(strack.Config{})()})
		require.NoError(t, err)
	}
	defer func() {
		for i := range 2 {
			require.NoError(t, end[i].Close())
			require.NoError(t, dev[i].Close())
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	connected := make(chan error, 1)
	go func() { connected <- conn[1].Connect(ctx, conn[0].Info()) }()
	require.NoError(t, conn[0].Connect(ctx, conn[1].Info()))
	require.NoError(t, <-connected)

	src, dst := make([]byte, size), make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(src)
	from, err := end[0].RegisterMemory(src, 0)
	require.NoError(t, err)
	to, err := end[1].RegisterMemory(dst, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	r, err := conn[1].StartRecv(to, 0, size)
	require.NoError(t, err)
	s, err := conn[0].StartSend(from, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	var stall time.Duration
	placed, gained := units.Bytes(0), time.Now()
	begun := gained
	for !isDone(s) || !isDone(r) {
		require.NoError(t, ctx.Err())
		if n, _ := r.Progress(); n > placed {
			stall = max(stall, time.Since(gained))
			placed, gained = n, time.Now()
		}
		time.Sleep(200 * time.Microsecond)
	}
	require.NoError(t, s.Err())
	require.NoError(t, r.Err())
	require.Equal(t, src, dst, "content")

	marker.mu.Lock()
	defer marker.mu.Unlock()
	marked := 0
	require.GreaterOrEqual(t, len(marker.paths), 3, "on a slow machine one may be down before anything is sent")
	for port, p := range marker.paths {
		t.Logf("source port %d: %d packets, %d marked", port, p.packets, p.marked)
		require.NotZero(t, p.packets)
		marked += p.marked
	}
	require.NotZero(t, marked)
	t.Logf("%v in %v, longest stall %v: %.1f round trips", size, time.Since(begun).Round(time.Millisecond), stall.Round(100*time.Microsecond), float64(stall)/5e6)
}
