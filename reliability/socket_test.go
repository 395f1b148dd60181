// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// loopback is an address of 127/8 that no other test process uses.
func loopback(i int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(64 + pid>>14&63), byte(pid >> 7 & 127), byte(pid&127<<1 | i)})
}

// sides is a pair of Conns over real sockets.
type sides struct {
	dev  [2]backend.Device
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

// close releases everything; it may be called again.
func (e *sides) close(t testing.TB) {
	for i := range 2 {
		require.NoError(t, e.ctx[i].Close())
		require.NoError(t, e.dev[i].Close())
	}
}

func overSockets(t testing.TB, link linkemu.Config, cfg reliability.Config, s func() scheme.Scheme) *sides {
	t.Helper()
	return overWatchedSockets(t, link, cfg, s, func(_ int, d backend.Device) backend.Device { return d })
}

// overWatchedSockets is overSockets with devices wrapped.
func overWatchedSockets(t testing.TB, link linkemu.Config, cfg reliability.Config, s func() scheme.Scheme,
	wrap func(side int, d backend.Device) backend.Device) *sides {
	t.Helper()
	return overEndpoints(t, link, sdr.EndpointConfig{}, cfg, s, wrap)
}

// overEndpoints is overWatchedSockets with Endpoints that are configured.
func overEndpoints(t testing.TB, link linkemu.Config, ep sdr.EndpointConfig, cfg reliability.Config, s func() scheme.Scheme,
	wrap func(side int, d backend.Device) backend.Device) *sides {
	t.Helper()
	e := &sides{}
	for i := range 2 {
		var dev backend.Device
		dev, err := userroce.Open(userroce.Config{Addr: loopback(i)})
		require.NoError(t, err)
		if link.Seed != 0 {
			l := link
			l.Seed += uint64(i)
			dev, err = linkemu.Wrap(dev, l)
			require.NoError(t, err)
		}
		dev = wrap(i, dev)
		e.ctx[i], err = sdr.NewEndpoint(dev, ep)
		require.NoError(t, err)
		c := cfg
		c.Scheme = s()
		e.conn[i], err = reliability.NewConn(e.ctx[i], sdr.QPConfig{}, c)
		require.NoError(t, err)
		e.dev[i] = dev
	}
	t.Cleanup(func() { e.close(t) })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.conn[1].Connect(ctx, e.conn[0].Info()) }()
	require.NoError(t, e.conn[0].Connect(ctx, e.conn[1].Info()))
	require.NoError(t, <-done)
	return e
}

// alloc registers n bytes on side i in memory outside the heap.
func (e *sides) alloc(t testing.TB, i int, n units.Bytes) *sdr.MR {
	t.Helper()
	b, err := sdr.AllocBuffer(n)
	require.NoError(t, err)
	m, err := e.ctx[i].RegisterMemory(b, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	return m
}

func (e *sides) move(t testing.TB, src, dst *sdr.MR, n units.Bytes) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	var got reliability.RecvResult
	go func() { var err error; got, err = e.conn[1].Recv(ctx, dst, 0, n); done <- err }()
	require.NoError(t, e.conn[0].Send(ctx, src, 0, n, reliability.SendOptions{Imm: 7, HasImm: true}))
	require.NoError(t, <-done)
	got.Missing = 0 // scheme none repairs nothing; callers compare content or counters
	require.Equal(t, reliability.RecvResult{Length: n, Imm: 7, HasImm: true}, got)
}

// emulated is a link of 1 Gbit/s and 4 ms that reorders and duplicates.
func emulated(drop float64) linkemu.Config {
	return linkemu.Config{RTT: 4 * ms, Rate: units.Gbit, Drop: drop, Reorder: 0.1, Duplicate: 0.01, Seed: 3}
}

func TestSockets(t *testing.T) {
	for _, drop := range []float64{0, 0.01} {
		t.Run(fmt.Sprintf("drop %g per packet", drop), func(t *testing.T) {
			e := overSockets(t, emulated(drop), reliability.Config{Rate: 950 * units.Mbit}, newSR(t, sr.RTO))
			src, dst := e.alloc(t, 0, 8*units.MiB), e.alloc(t, 1, 8*units.MiB)
			for i := range src.Bytes() {
				src.Bytes()[i] = byte(i * 31 >> 7)
			}
			e.move(t, src, dst, 8*units.MiB)
			require.Equal(t, src.Bytes(), dst.Bytes())
		})
	}
}

func BenchmarkLoopback(b *testing.B) {
	for _, mode := range []sr.Mode{sr.RTO, sr.NACK} {
		b.Run(fmt.Sprint(mode), func(b *testing.B) {
			e := overSockets(b, linkemu.Config{}, reliability.Config{}, newSR(b, mode))
			const n = 256 * units.MiB
			src, dst := e.alloc(b, 0, n), e.alloc(b, 1, n)
			e.move(b, src, dst, n)
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				e.move(b, src, dst, n)
			}
			s := e.conn[0].Stats()
			b.ReportMetric(float64(b.N)*float64(n)*8/b.Elapsed().Seconds()/1e9, "Gbit/s")
			b.ReportMetric(float64(s.Units.Retransmitted)/float64(s.Units.Sent)*100, "%retransmitted")
			e.close(b)
		})
	}
}
