// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A realPair is two sides over sockets: a sends on this goroutine, b receives on
// one of its own until stop is called.
type realPair struct {
	a, b     *side
	depth    int
	arrived  atomic.Int64 // writes at b
	frames   atomic.Int64 // datagrams at b
	quit     atomic.Bool
	finished chan error
	// Of datagrams: when they arrived at b. Read after stop.
	frameTimes []time.Time
}

func newRealPair(t testing.TB, cfg Config, depth int, wire backend.Wire) *realPair {
	t.Helper()
	open := func(addr string) *userroce.Device {
		d, err := userroce.Open(userroce.Config{Addr: netip.MustParseAddr(addr), Port: userroce.AnyPort, ECN: cfg.MarkAbove > 0, Wire: wire})
		require.NoError(t, err)
		return d
	}
	p := &realPair{
		a: newSide(t, open("127.0.0.1"), cfg, depth), b: newSide(t, open("127.0.0.2"), Config{}, depth),
		depth: depth, finished: make(chan error, 1),
	}
	connect(t, p.a, p.b)
	connect(t, p.b, p.a)
	go p.receive()
	return p
}

func (p *realPair) receive() {
	dst := make([]backend.Completion, 64)
	for !p.quit.Load() {
		n, err := p.b.cq.Poll(p.b.dev.Now(), dst)
		if err != nil {
			p.finished <- err
			return
		}
		for i := range dst[:n] {
			if dst[i].Kind == backend.KindDatagram {
				p.frameTimes = append(p.frameTimes, time.Now())
				p.frames.Add(1)
			} else {
				p.arrived.Add(1)
			}
		}
		if n == 0 {
			_ = p.b.cq.Wait(10 * ms)
		}
	}
	p.finished <- nil
}

func (p *realPair) stop(t testing.TB) {
	t.Helper()
	p.quit.Store(true)
	p.b.cq.Wake()
	require.NoError(t, <-p.finished)
	require.NoError(t, p.a.dev.Close())
	require.NoError(t, p.b.dev.Close())
}

// send posts count writes of n bytes, every 16th signalled, sleeping whenever it
// can, and returns when the last has been reported as sent.
func (p *realPair) send(t testing.TB, count, n int) {
	t.Helper()
	var batch [16]backend.Write
	for i := range batch {
		batch[i] = backend.Write{VA: p.b.va + uint64(i*n), RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: uint32(n), Signaled: i == len(batch)-1}
	}
	sent := 0
	for posted := 0; sent < count; {
		k := 0
		if posted < count {
			var err error
			first := posted % len(batch)
			k, err = p.a.uc.PostWrites(p.a.dev.Now(), batch[first:min(len(batch), first+count-posted)])
			require.NoError(t, err)
			posted += k
		}
		m, err := p.a.cq.Poll(p.a.dev.Now(), p.a.dst[:])
		require.NoError(t, err)
		for _, c := range p.a.dst[:m] {
			if c.Kind == backend.KindSent {
				sent += len(batch)
			}
		}
		if k == 0 && m == 0 {
			p.sleep(t)
		}
	}
}

// sleep waits as a worker of package sdr does.
func (p *realPair) sleep(t testing.TB) {
	t.Helper()
	d := min(100*ms, p.a.cq.Next().Sub(p.a.dev.Now()))
	require.NoError(t, p.a.cq.Wait(d))
}

func TestLossOverSockets(t *testing.T) {
	const count = 20_000
	p := newRealPair(t, Config{RTT: 2 * ms, Drop: 0.05, Duplicate: 0.02, Reorder: 0.1, Seed: 7}, 256, nil)
	p.send(t, count, 512)
	s := p.a.dev.Stats()
	lost := s.Drops[backend.DropEmulatedLoss]
	require.InDelta(t, 0.05*count, lost, 5*31, "five standard deviations of the binomial distribution")
	want := int64(count - lost + s.Duplicated)
	require.Equal(t, uint64(want), s.PacketsSent-lost)
	require.Eventually(t, func() bool { return p.arrived.Load() == want }, 5*time.Second, time.Millisecond)
	p.stop(t)
}

// Packets are never early, and some are on time.
func TestDelayOverSockets(t *testing.T) {
	const oneWay = 5 * time.Millisecond
	p := newRealPair(t, Config{RTT: 2 * oneWay}, 64, nil)
	posted := make([]time.Time, 40)
	for i := range posted {
		posted[i] = time.Now()
		_, err := p.a.ud.PostDatagrams(p.a.dev.Now(), []backend.Datagram{{To: p.a.to, Data: []byte{byte(i)}}})
		require.NoError(t, err)
		for until := time.Now().Add(3 * time.Millisecond); time.Now().Before(until); {
			p.a.poll(t, p.a.dev.Now())
			p.sleepAtMost(t, time.Until(until))
		}
	}
	require.Eventually(t, func() bool {
		p.a.poll(t, p.a.dev.Now())
		return int(p.frames.Load()) == len(posted)
	}, 5*time.Second, time.Millisecond)
	p.stop(t)
	delays := make([]time.Duration, len(posted))
	for i := range delays {
		delays[i] = p.frameTimes[i].Sub(posted[i])
	}
	slices.Sort(delays)
	t.Logf("asked %v, got %v to %v, median %v", oneWay, delays[0], delays[len(delays)-1], delays[len(delays)/2])
	require.GreaterOrEqual(t, delays[0], oneWay)
	require.Less(t, delays[0], oneWay*105/100)
}

func (p *realPair) sleepAtMost(t testing.TB, d time.Duration) {
	t.Helper()
	require.NoError(t, p.a.cq.Wait(min(d, 100*ms)))
}

// A post from another goroutine reaches a worker that sleeps.
func TestPostWakesTheSleeper(t *testing.T) {
	p := newRealPair(t, Config{RTT: 2 * ms}, 64, nil)
	go func() {
		time.Sleep(20 * time.Millisecond)
		_, _ = p.a.ud.PostDatagrams(p.a.dev.Now(), []backend.Datagram{{To: p.a.to, Data: []byte("x")}})
	}()
	begin := time.Now()
	for p.a.poll(t, p.a.dev.Now()); p.a.dev.Stats().PacketsSent == 0 && time.Since(begin) < 5*time.Second; p.a.poll(t, p.a.dev.Now()) {
		require.NoError(t, p.a.cq.Wait(10*units.Second))
	}
	require.Less(t, time.Since(begin), 5*time.Second, "it slept on")
	p.stop(t)
}

func TestCorruptionOverSockets(t *testing.T) {
	wire, err := NewCorrupter(CorrupterConfig{Corrupt: 0.2, Truncate: 0.1, Seed: 3})
	require.NoError(t, err)
	p := newRealPair(t, Config{}, 64, wire)
	for i := range p.a.mem.Bytes() {
		p.a.mem.Bytes()[i] = 0xa5
	}
	const count = 2000
	p.send(t, count, 256)
	bad := func() (n int64) {
		s := p.b.dev.Stats()
		for _, v := range s.Drops {
			n += int64(v)
		}
		return n
	}
	require.Eventually(t, func() bool { return p.arrived.Load()+bad() == count }, 5*time.Second, time.Millisecond)
	// Some of the damage hits bits that the ICRC leaves out.
	require.InDelta(t, 0.28*count, bad(), 150)
	require.NotZero(t, p.b.dev.Stats().Drops[backend.DropICRC])
	p.stop(t)
	for i, b := range p.a.mem.Bytes() {
		require.Equal(t, byte(0xa5), b, "the damage hit the sender's memory at %d", i)
	}
	for i, b := range p.b.mem.Bytes() {
		require.True(t, b == 0 || b == 0xa5, "damaged byte %#x at %d", b, i)
	}
}

// BenchmarkPace shows how close to the asked rate the link is, and the share of
// one CPU that both sides together need. The rate may never be exceeded.
func BenchmarkPace(b *testing.B) {
	for _, rate := range []units.Rate{units.Gbit, 10 * units.Gbit, 0} {
		name := "unlimited"
		if rate > 0 {
			name = rate.String()
		}
		b.Run(name, func(b *testing.B) { benchmarkPace(b, rate) })
	}
}

func benchmarkPace(b *testing.B, rate units.Rate) {
	cfg := Config{RTT: 10 * ms, Rate: rate, Drop: 1e-3}
	depth := 16384
	if rate > 0 {
		// And 20 ms of them, for when this goroutine does not get a CPU.
		depth = cfg.PacketsInFlight(testMTU) + int(rate.Bytes(20*ms)/testMTU)
	}
	p := newRealPair(b, cfg, depth, nil)
	count := max(16, b.N&^15)
	cpu, begin := cpuTime(b), time.Now()
	p.send(b, count, testMTU)
	elapsed := time.Since(begin) - cfg.RTT/2
	cpu = cpuTime(b) - cpu
	bytes := units.Bytes(count) * (testMTU + p.a.dev.Caps().HeaderBytes)
	got := units.RateOf(bytes, elapsed)
	b.ReportMetric(float64(got)/1e9, "Gbit/s")
	b.ReportMetric(100*cpu.Seconds()/elapsed.Seconds(), "%cpu")
	b.SetBytes(testMTU)
	if rate > 0 && b.N > 10_000 && float64(got) > 1.01*float64(rate) {
		b.Errorf("asked for %v, got %v", rate, got)
	}
	p.stop(b)
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
