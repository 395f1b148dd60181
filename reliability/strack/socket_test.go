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

// A socketPair is two connected Conns over sockets.
type socketPair struct {
	testing.TB
	end      [2]*sdr.Endpoint
	conn     [2]*reliability.Conn
	limit    context.Context
	src, dst []byte
}

// newSocketPair connects two sides. wire is the second one's, and wrap puts something before the devices.
func newSocketPair(t testing.TB, qp sdr.QPConfig, cfg reliability.Config, wire backend.Wire, wrap func(backend.Device, uint64) (backend.Device, error)) *socketPair {
	t.Helper()
	p := &socketPair{TB: t}
	pid := os.Getpid()
	for i := range 2 {
		addr := netip.AddrFrom4([4]byte{127, byte(64 + pid>>14&63), byte(pid >> 7 & 127), byte(pid&127<<1 | i)})
		u := userroce.Config{Addr: addr, ECN: true}
		if i == 1 {
			u.Wire = wire
		}
		raw, err := userroce.Open(u)
		require.NoError(t, err)
		dev, err := wrap(raw, uint64(i+1))
		require.NoError(t, err)
		p.end[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, p.end[i].Close())
			require.NoError(t, dev.Close())
		})
		cfg.Congestion, cfg.Scheme = congestion.Spec{Name: "none"}, makeScheme(strack.Config{})()
		p.conn[i], err = reliability.NewConn(p.end[i], qp, cfg)
		require.NoError(t, err)
	}
	var cancel context.CancelFunc
	p.limit, cancel = context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	connected := make(chan error, 1)
	go func() { connected <- p.conn[1].Connect(p.limit, p.conn[0].Info()) }()
	require.NoError(t, p.conn[0].Connect(p.limit, p.conn[1].Info()))
	require.NoError(t, <-connected)
	return p
}

// start sends random content from the first to the second.
func (p *socketPair) start(size units.Bytes) (s, r *reliability.Transfer) {
	p.Helper()
	p.src, p.dst = make([]byte, size), make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(p.src)
	from, err := p.end[0].RegisterMemory(p.src, 0)
	require.NoError(p, err)
	to, err := p.end[1].RegisterMemory(p.dst, sdr.AccessRemoteWrite)
	require.NoError(p, err)
	r, err = p.conn[1].StartRecv(to, 0, size)
	require.NoError(p, err)
	s, err = p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
	require.NoError(p, err)
	return s, r
}

// check requires that a transfer that is done has gone well.
func (p *socketPair) check(s, r *reliability.Transfer) {
	p.Helper()
	require.NoError(p, s.Err())
	require.NoError(p, r.Err())
	require.Equal(p, p.src, p.dst, "content")
}

// A cutter counts the data of each source port, and lets nothing more through on every fourth once as much has come.
type cutter struct {
	mu    sync.Mutex
	after int
	got   map[uint16]int // packets by source port
	lost  map[uint16]int
	all   int
}

func (*cutter) Outbound([]backend.WirePacket) {}

func (c *cutter) Inbound(batch []backend.WirePacket) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range batch {
		w := &batch[i]
		port := w.Src.Port()
		switch {
		case len(w.Data) < 1000:
			continue // probes, and control, which leaves from the first port
		case port%4 == 3 && c.all > c.after:
			c.lost[port]++
			w.Data = nil
		default:
			c.got[port]++
			c.all++
		}
	}
}

// STrack over sockets has as many paths as the paper's, 256 source ports, and uses each. A quarter of them dies in the middle: they
// get little more, and what arrives is right.
func TestPathsOverSockets(t *testing.T) {
	const size, mtu, paths = 8 * units.MiB, 1024, 256
	c := &cutter{after: int(size/mtu) / 2, got: map[uint16]int{}, lost: map[uint16]int{}}
	p := newSocketPair(t, sdr.QPConfig{MTU: mtu, Channels: paths, Generations: 1}, reliability.Config{Rate: 200 * units.Mbit}, c,
		func(dev backend.Device, _ uint64) (backend.Device, error) { return dev, nil })
	s, r := p.start(size)
	require.NoError(t, s.Wait(p.limit))
	require.NoError(t, r.Wait(p.limit))
	p.check(s, r)

	c.mu.Lock()
	defer c.mu.Unlock()
	least, most, lost := int(size), 0, 0
	for _, n := range c.got {
		least, most = min(least, n), max(most, n)
	}
	for _, n := range c.lost {
		lost += n
	}
	st := p.conn[0].Stats().Units
	t.Logf("%d source ports with %d to %d packets; %d of them dead, which took %d more; %d of %d sent again", len(c.got), least, most, len(c.lost), lost, st.Retransmitted, st.Sent)
	require.Len(t, c.got, paths)
	require.NotEmpty(t, c.lost)
	require.Less(t, lost, c.after/2, "of %d packets, a quarter of them as many", c.after)
}

// STrack over sockets, through a link whose paths are unequal, and mark: one has a tenth of the others' rate, one goes
// down on the way. What arrives is right, marks have been heard, and no path has been left out.
func TestMarksAndUnequalPathsOverSockets(t *testing.T) {
	const size = 4 * units.MiB
	rates := []units.Rate{40 * units.Mbit, 40 * units.Mbit, 4 * units.Mbit, 40 * units.Mbit}
	marker := &phantom{rates: rates, mark: 4 * units.KiB, paths: map[uint16]*phantomPath{}}
	p := newSocketPair(t, sdr.QPConfig{MTU: 1024, Channels: 4}, reliability.Config{Rate: 124 * units.Mbit}, marker,
		func(dev backend.Device, seed uint64) (backend.Device, error) {
			return linkemu.Wrap(dev, linkemu.Config{
				RTT: 5 * ms, ChannelRate: rates, ChannelDownAt: []units.Duration{0, 200 * ms, 0, 0}, Queue: 128 * units.KiB, Seed: seed,
			})
		})
	s, r := p.start(size)
	var stall time.Duration
	placed, gained := units.Bytes(0), time.Now()
	begun := gained
	for !isDone(s) || !isDone(r) {
		require.NoError(t, p.limit.Err())
		if n, _ := r.Progress(); n > placed {
			stall = max(stall, time.Since(gained))
			placed, gained = n, time.Now()
		}
		time.Sleep(200 * time.Microsecond)
	}
	p.check(s, r)

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
