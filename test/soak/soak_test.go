// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/heaptest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

var (
	soakFor  = flag.Duration("soak", 2*time.Second, "how long to run")
	soakSeed = flag.Uint64("seed", 0, "repeat the run with this seed")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errEnough = errors.New("the test gives up")

// TestSoak runs sessions over a link with every fault.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	end := time.Now().Add(*soakFor)
	var count tally
	var heap units.Bytes
	for round := 0; round == 0 || time.Now().Before(end); round++ {
		session(t, rng.Uint64(), &count)
		if t.Failed() {
			t.Fatalf("failed with seed %d in round %d", seed, round)
		}
		if h := heaptest.Live(); round == 2 {
			heap = h
		} else if round > 2 {
			require.Less(t, h, 2*heap+64<<20, "the heap grows, seed %d", seed)
		}
	}
	t.Logf("%d transfers, %v, %d given up", count.transfers.Load(), units.Bytes(count.bytes.Load()), count.cancelled.Load())
	require.NotZero(t, count.transfers.Load())
}

type tally struct{ transfers, cancelled, bytes atomic.Int64 }

// session connects two ends over a bad link, moves transfers both ways, and
// closes in the middle of things.
func session(t *testing.T, seed uint64, count *tally) {
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := []func() (scheme.Scheme, error){
		func() (scheme.Scheme, error) { return sr.New(sr.Config{}) },
		func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) },
		func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 16, M: 4}) },
		func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.XOR, K: 8, M: 2}) },
		func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) },
	}
	e := open(t, rng, kinds[rng.IntN(len(kinds))])
	defer e.close(t)
	done := make(chan bool, 2)
	stop := time.Now().Add(time.Duration(200+rng.IntN(400)) * time.Millisecond)
	for dir := range 2 {
		seed := rng.Uint64()
		go func() { done <- e.traffic(t, dir, rand.New(rand.NewPCG(seed, 2)), stop, count) }()
	}
	if rng.IntN(3) == 0 { // close while they are at it
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		e.close(t)
	}
	<-done
	<-done
}

type ends struct {
	dev  [2]*linkemu.Device
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

func open(t *testing.T, rng *rand.Rand, newScheme func() (scheme.Scheme, error)) *ends {
	e := &ends{}
	mtu := []units.Bytes{1024, 4096}[rng.IntN(2)]
	workers := 1 + rng.IntN(2)
	for i := range 2 {
		w, err := linkemu.NewCorrupter(linkemu.CorrupterConfig{Corrupt: 0.002, Truncate: 0.001, Seed: rng.Uint64()})
		require.NoError(t, err)
		dev, err := userroce.Open(userroce.Config{Addr: address(i), Workers: workers, Wire: w})
		require.NoError(t, err)
		e.dev[i], err = linkemu.Wrap(dev, linkemu.Config{
			RTT: 2 * units.Millisecond, Rate: units.Gbit, Drop: 0.005, Burst: 3, Jitter: 100 * units.Microsecond,
			Reorder: 0.05, Duplicate: 0.01, Seed: rng.Uint64() | 1,
		})
		require.NoError(t, err)
		e.ctx[i], err = sdr.NewEndpoint(e.dev[i], sdr.EndpointConfig{Workers: workers})
		require.NoError(t, err)
		s, err := newScheme()
		require.NoError(t, err)
		e.conn[i], err = reliability.NewConn(e.ctx[i],
			sdr.QPConfig{MTU: mtu, MaxMessage: 256 * units.KiB, ConnectTimeout: 10 * units.Second},
			reliability.Config{Scheme: s, Rate: 700 * units.Mbit, Window: 16, ParityPool: units.MiB})
		require.NoError(t, err)
	}
	here := func(f func()) { f() }
	e.connect(t, [2]host{here, here})
	return e
}

func (e *ends) connect(t *testing.T, on [2]host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	for i := range 2 {
		go on[i](func() { done <- e.conn[i].Connect(ctx, e.conn[1-i].Info()) })
	}
	require.NoError(t, <-done)
	require.NoError(t, <-done)
}

func (e *ends) close(t *testing.T) {
	for i := range 2 {
		require.NoError(t, e.ctx[i].Close())
		require.NoError(t, e.dev[i].Close())
	}
}

// address is one of 127/8 that no other test process uses.
func address(i int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(192 + pid>>14&31), byte(pid >> 7 & 127), byte(pid&127<<1 | i)})
}

const guard = 4096

// traffic moves transfers in one direction until stop, some given up.
func (e *ends) traffic(t *testing.T, dir int, rng *rand.Rand, stop time.Time, count *tally) bool {
	const most = 2 << 20
	src, dst := buffer(e, dir, most), buffer(e, 1-dir, most+2*guard)
	if src == nil || dst == nil {
		return true // closed already
	}
	fill := rand.NewChaCha8([32]byte{byte(rng.Uint32())})
	for time.Now().Before(stop) {
		n := int(rng.Uint64() >> (43 + rng.IntN(21)) % (most + 1))
		room := min(most, n+rng.IntN(5000))
		_, _ = fill.Read(src.Bytes()[:n])
		paint(dst.Bytes())
		r, err := e.conn[1-dir].StartRecv(dst, guard, units.Bytes(room))
		if err != nil {
			return errors.Is(err, sdr.ErrClosed)
		}
		s, err := e.conn[dir].StartSend(src, 0, units.Bytes(n), reliability.SendOptions{})
		if err != nil {
			return errors.Is(err, sdr.ErrClosed)
		}
		if rng.IntN(8) == 0 {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
			[]*reliability.Transfer{r, s}[rng.IntN(2)].Cancel(errEnough)
		}
		if !settle(t, r, s, count) {
			return true
		}
		check(t, src.Bytes()[:n], dst.Bytes(), room, r)
	}
	return true
}

// settle waits for both halves; false when the ends were closed.
func settle(t *testing.T, r, s *reliability.Transfer, count *tally) bool {
	for _, x := range []*reliability.Transfer{r, s} {
		select {
		case <-x.Done():
		case <-time.After(30 * time.Second):
			t.Errorf("a transfer hangs")
			return false
		}
	}
	for _, err := range []error{r.Err(), s.Err()} {
		switch {
		case err == nil:
		case errors.Is(err, sdr.ErrClosed):
			return false
		case errors.Is(err, errEnough), errors.Is(err, sdr.ErrAborted), errors.Is(err, sdr.ErrCompleted):
			count.cancelled.Add(1)
		default:
			t.Errorf("a transfer failed: %v", err)
			return false
		}
	}
	count.transfers.Add(1)
	count.bytes.Add(int64(r.Length()))
	return true
}

// check compares what arrived, and that nothing around the buffer changed.
func check(t *testing.T, sent, mem []byte, room int, r *reliability.Transfer) {
	body := mem[guard : guard+room]
	if r.Err() == nil && (int(r.Length()) != len(sent) || !bytes.Equal(body[:len(sent)], sent)) {
		t.Errorf("%d bytes arrived of %d, or others", r.Length(), len(sent))
	}
	for i, b := range mem {
		outside := i < guard || i >= guard+len(sent)
		if outside && b != canary {
			t.Errorf("byte %d outside the transfer's %d changed", i-guard, len(sent))
			return
		}
	}
}

const canary = 0xc5

func paint(b []byte) {
	for i := range b {
		b[i] = canary
	}
}

// buffer registers memory at end i, nil when it is closed.
func buffer(e *ends, i int, n units.Bytes) *sdr.MR {
	m, err := e.ctx[i].RegisterMemory(make([]byte, n), sdr.AccessRemoteWrite)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return nil
	}
	return m
}
