// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/oob"
)

// TestDialledAgain: a peer that has no room is dialled again after ever longer pauses, until the context ends or, without a deadline, for ten
// seconds. Other errors end it at once.
func TestDialledAgain(t *testing.T) {
	busy := &oob.PeerError{Code: oob.CodeBusy, Reason: "no room"}
	slow := &oob.Error{Op: "handshake with", Err: oob.ErrTooSlow}
	// dials runs again with a dial that fails with err, and returns when it dialled.
	dials := func(ctx context.Context, err error) (at []time.Duration, _ error) {
		start := time.Now()
		_, err = again(ctx, func() (*Conn, error) {
			at = append(at, time.Since(start))
			return nil, err
		})
		return append(at, time.Since(start)), err
	}
	synctest.Test(t, func(t *testing.T) {
		at, err := dials(t.Context(), busy)
		require.Equal(t, error(busy), err)
		require.Equal(t, busyTime, at[len(at)-1])
		longest := leastPause
		for i := range len(at) - 2 {
			pause := at[i+1] - at[i]
			require.GreaterOrEqual(t, pause, longest/2)
			require.Less(t, pause, longest)
			longest = min(2*longest, mostPause)
		}
		require.Equal(t, mostPause, longest)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		at, err := dials(ctx, busy)
		require.Equal(t, time.Minute, at[len(at)-1])
		require.ErrorIs(t, endedBy(ctx, err), os.ErrDeadlineExceeded)
		require.ErrorIs(t, err, busy)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("another has won")
		time.AfterFunc(time.Second, func() { cancel(why) })
		at, err := dials(ctx, busy)
		require.Equal(t, time.Second, at[len(at)-1])
		require.ErrorIs(t, err, why)
	})
	synctest.Test(t, func(t *testing.T) {
		at, err := dials(t.Context(), slow)
		require.Equal(t, error(slow), err)
		require.Equal(t, busyTime, at[len(at)-1])
	})
	// One that is under way when the context ends doesn't hide that there was no room.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		told := error(nil)
		_, err := again(ctx, func() (*Conn, error) {
			if told == nil {
				told = busy
				return nil, busy
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		require.ErrorIs(t, err, busy)
		require.ErrorIs(t, endedBy(ctx, err), os.ErrDeadlineExceeded)
	})
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{os.ErrNotExist, &oob.PeerError{Code: oob.CodeRejected}, nil} {
			at, got := dials(t.Context(), err)
			require.Equal(t, err, got)
			require.Equal(t, []time.Duration{0, 0}, at)
		}
	})
}
