// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

func newPong(t *testing.T) *sides {
	return overSockets(t, linkemu.Config{}, reliability.Config{}, newSR(t, sr.RTO))
}

// pingPong plays so many rounds, each end in a goroutine that posts and waits.
func (e *sides) pingPong(t *testing.T, rounds int) {
	t.Helper()
	const n = 4 * units.KiB
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 2 {
		in, out := e.alloc(t, i, n), e.alloc(t, i, n)
		wg.Go(func() {
			for round := range rounds {
				r, err := e.conn[i].StartRecv(in, 0, n)
				if err == nil && (i == 0 || round > 0) {
					err = e.conn[i].Send(ctx, out, 0, n, reliability.SendOptions{})
				}
				if err == nil {
					err = r.Wait(ctx)
				}
				if err != nil {
					t.Errorf("end %d, round %d: %v", i, round, err)
					return
				}
			}
			if i == 1 {
				if err := e.conn[i].Send(ctx, out, 0, n, reliability.SendOptions{}); err != nil {
					t.Errorf("the last answer: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

// TestCallersRunTheirWorker: a goroutine that waits for a transfer runs the worker itself, and when none comes back the worker's own goroutine does.
func TestCallersRunTheirWorker(t *testing.T) {
	e := newPong(t)
	const rounds = 300
	e.pingPong(t, rounds)
	for i := range 2 {
		require.Greater(t, e.ctx[i].Stats().Lent, uint64(rounds/2), "end %d", i)
	}
	const n = 64 * units.KiB
	src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
	r, err := e.conn[1].StartRecv(dst, 0, n)
	require.NoError(t, err)
	s, err := e.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
	require.NoError(t, err)
	for _, x := range []*reliability.Transfer{s, r} { // without a call that could run anything
		select {
		case <-x.Done():
		case <-time.After(5 * time.Second):
			require.Fail(t, "nobody runs the worker")
		}
	}
}

// TestManyCallers: several wait at a time, for both directions.
func TestManyCallers(t *testing.T) {
	e := newPong(t)
	const n, callers, rounds = 16 * units.KiB, 4, 40
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 2 {
		for range callers {
			in, out := e.alloc(t, i, n), e.alloc(t, i, n)
			for _, call := range []func() error{
				func() error { return e.conn[i].Send(ctx, out, 0, n, reliability.SendOptions{}) },
				func() error { _, err := e.conn[i].Recv(ctx, in, 0, n); return err },
			} {
				wg.Go(func() {
					for range rounds {
						if err := call(); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
	}
	wg.Wait()
}

// TestCallerSleeps: a goroutine that waits in vain spends no processor time, and learns when its context or its connection ends.
func TestCallerSleeps(t *testing.T) {
	e := newPong(t)
	const n = 4 * units.KiB
	e.pingPong(t, 20)
	dst := e.alloc(t, 0, n)
	r, err := e.conn[0].StartRecv(dst, 0, n)
	require.NoError(t, err)
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 300*time.Millisecond, enough)
	defer cancel()
	var before, after unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	begun := time.Now()
	require.ErrorIs(t, r.Wait(ctx), enough)
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	spent := unix.TimevalToNsec(after.Utime) + unix.TimevalToNsec(after.Stime) - unix.TimevalToNsec(before.Utime) - unix.TimevalToNsec(before.Stime)
	require.Less(t, time.Duration(spent), time.Since(begun)/2, "processor time of both ends")

	for _, end := range []func(){func() { r.Cancel(enough) }, func() { _ = e.ctx[0].Close() }} {
		r, err = e.conn[0].StartRecv(dst, 0, n)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- r.Wait(context.Background()) }()
		time.Sleep(10 * time.Millisecond) // by then it may sleep
		end()
		select {
		case err := <-ended:
			require.Error(t, err)
		case <-time.After(5 * time.Second):
			require.Fail(t, "the caller isn't told")
		}
	}
}
