// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestLifeOfAStream brings streams into every state of a send, by each transition that there is.
func TestLifeOfAStream(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, 4096, true), p.mr(1, 4096, false)
	stream := func(length units.Bytes) sdr.SendStream {
		s, err := p.qp[0].StartStream(src, 0, length, sdr.SendOptions{})
		require.NoError(t, err)
		require.Equal(t, "waiting", s.StateName())
		return s
	}
	post := func(length units.Bytes) sdr.RecvHandle {
		r, err := p.qp[1].PostRecv(dst, 0, length)
		require.NoError(t, err)
		require.Equal(t, "posted", r.StateName())
		return r
	}
	becomes := func(s sdr.SendStream, want string) {
		t.Helper()
		p.until(units.Second, func() bool { return s.StateName() == want })
	}
	complete := func(r sdr.RecvHandle) {
		t.Helper()
		require.NoError(t, r.Complete())
		require.Equal(t, "completed", r.StateName())
		p.until(units.Second, r.Done)
		require.Equal(t, "fenced", r.StateName())
	}

	// Ended before the grant.
	s := stream(1024)
	require.NoError(t, s.Send(0, 1024))
	require.NoError(t, s.End())
	require.Equal(t, "queued", s.StateName())
	require.ErrorIs(t, s.Send(0, 1024), sdr.ErrClosed)
	r := post(4096)
	becomes(s, "done")
	p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
	complete(r)

	// Ended after it, and then not again.
	r, s = post(4096), stream(4096)
	becomes(s, "open")
	require.NoError(t, s.Send(0, 4096))
	require.NoError(t, s.End())
	require.Equal(t, "ending", s.StateName())
	require.NoError(t, s.End())
	becomes(s, "done")
	complete(r)

	// Completed by the receiver before its owner ends it.
	r, s = post(4096), stream(4096)
	becomes(s, "open")
	complete(r)
	becomes(s, "stopped")
	require.ErrorIs(t, s.Send(0, 1024), sdr.ErrCompleted)
	require.NoError(t, s.End())
	require.Equal(t, "ending", s.StateName())
	becomes(s, "done")

	// Too long for the buffer, ended or not.
	s = stream(4096)
	require.NoError(t, s.Send(0, 4096))
	r = post(1024)
	p.until(units.Second, func() bool { done, err := s.Poll(); return done && err != nil })
	require.NoError(t, s.End())
	require.Equal(t, "done", s.StateName())
	complete(r)
	h, err := p.qp[0].PostSend(src, 0, 4096, sdr.SendOptions{})
	require.NoError(t, err)
	require.Equal(t, "queued", h.StateName())
	r = post(1024)
	p.until(units.Second, func() bool { done, err := h.Poll(); return done && err != nil })
	complete(r)

	// The queue pair ends in the middle of each.
	waiting, queued := stream(1024), stream(1024)
	require.NoError(t, queued.End())
	require.Equal(t, "ready", p.qp[0].StateName())
	require.NoError(t, p.qp[0].Close())
	require.Equal(t, "gone", p.qp[0].StateName())
	for _, s := range []sdr.SendStream{waiting, queued} {
		require.Equal(t, "done", s.StateName())
		require.NoError(t, s.End())
		_, err := s.Poll()
		require.ErrorIs(t, err, sdr.ErrClosed)
	}
}
