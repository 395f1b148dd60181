// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestModeration: a stream of the least rate is moderated and a slower one isn't, and a pause begins when what was read has
// been handled, once each time that the socket is emptied.
func TestModeration(t *testing.T) {
	const read = 64 * units.KiB
	stream := func(m *moderation, now units.Instant, gap units.Duration, stretches int) units.Instant {
		for range stretches * int(moderatedStretch/read) {
			now = now.Add(gap)
			require.False(t, m.paused(now), "not while there is more to read")
			m.took(now, read, false)
		}
		return now
	}
	fast := moderatedRate.Time(read) - 1 // it is rounded up
	for _, start := range []units.Instant{0, 1, units.Instant(units.Second)} {
		var m moderation
		m.begin(leastModerated)
		now := stream(&m, start, fast+units.Microsecond, 3)
		require.Equal(t, prompt, m.state, "a slow stream")
		now = stream(&m, now, fast, 3)
		require.Equal(t, moderated, m.state, "a fast stream")

		pause := pauses[0]
		m.took(now, read, true)
		handled := now.Add(10 * units.Microsecond)
		require.True(t, m.paused(handled))
		require.True(t, m.paused(handled.Add(pause-1)))
		require.False(t, m.paused(handled.Add(pause)))
		require.False(t, m.paused(handled.Add(pause)), "one pause, whether anything has come or not")

		m.took(handled.Add(units.Second), 1, true)
		require.Equal(t, prompt, m.state, "after the stream has ended")
		require.False(t, m.paused(handled.Add(units.Second)))
	}
}

// TestUnmoderated: neither a small socket nor a clock that stands still is made to wait.
func TestUnmoderated(t *testing.T) {
	for _, buffer := range []units.Bytes{leastModerated - 1, leastModerated} {
		var m moderation
		m.begin(buffer)
		for i := range 100 {
			now := units.Instant(0)
			if buffer < leastModerated {
				now = units.Instant(i)
			}
			m.took(now, moderatedStretch, true)
			require.False(t, m.paused(now), "buffer of %v, read %d", buffer, i)
		}
	}
}

// TestModeratedStream: packets of a fast stream that come during a pause are reported after it, and all of them.
func TestModeratedStream(t *testing.T) {
	const burst = 30
	from, to := newPair(t, false)
	fill(from.mem, 1)
	rkey, va := to.expose(0, 0, testMax)
	w := from.message(rkey, va, testMax, 4096)
	r := to.d.receivers[0]
	r.rhythm.begin(leastModerated) // whatever this machine grants
	now := to.d.Now()
	poll := func() int {
		n, err := to.cq.Poll(now, to.batch[:])
		require.NoError(t, err)
		return n
	}
	send := func(i int) {
		at := i * burst % (len(w) - burst)
		from.post(w[at : at+burst]...)
		fds := []unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 10_000)
		require.NoError(t, err)
		require.Equal(t, 1, n, "nothing has come")
	}
	pauses := 0
	receive := func() {
		for received := 0; received < burst; {
			n := poll()
			received += n
			if n == 0 && r.rhythm.state == pausing {
				pauses++
				now = r.rhythm.until
			}
		}
	}
	for i := range 100 {
		send(i)
		receive()
		now = now.Add(units.Microsecond)
	}
	require.Greater(t, pauses, 50, "as often as the socket was emptied")

	send(100)
	if r.rhythm.state == emptied {
		require.Zero(t, poll())
	}
	require.Equal(t, pausing, r.rhythm.state)
	now = r.rhythm.until - 1
	require.Zero(t, poll())
	now++
	require.Positive(t, poll())

	for range 4 { // what is left of the fast stream, and a slow one
		now = now.Add(units.Second)
		poll()
	}
	send(101)
	require.Positive(t, poll(), "a slow stream is read at once")
}
