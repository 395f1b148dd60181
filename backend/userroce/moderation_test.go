// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
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

// TestModeratedLate: a receiver that comes back long after it has emptied the socket doesn't pause: what has come since has waited for long enough.
func TestModeratedLate(t *testing.T) {
	for _, c := range []struct {
		away  units.Duration
		pause bool
	}{{100 * units.Microsecond, true}, {units.Millisecond, false}, {units.Second, false}} {
		m := moderation{state: moderated, since: 100, read: 100, trial: newTrial(uint8(len(pauses)))}
		m.took(200, 64*units.KiB, true)
		require.Equal(t, c.pause, m.paused(units.Instant(200).Add(c.away)), "after %v", c.away)
	}
}

// TestModeratedBursts: the better pause is found for bursts of a few stretches, too, however long nothing comes between them.
func TestModeratedBursts(t *testing.T) {
	const read, burst = 512 * units.KiB, 2 * units.MiB
	for best := range pauses {
		var m moderation
		m.begin(leastModerated)
		var now units.Instant
		random := rand.New(rand.NewPCG(1, 2))
		good, all := 0, 0
		for range 10_000 {
			for range burst / read {
				took := moderatedRate.Time(read) / 2
				if int(m.trial.used) != best {
					took += took / 5
				}
				now = now.Add(took)
				if m.paused(now.Add(-pauses[m.trial.used])) { // a part of that time
					require.False(t, m.paused(now))
				}
				m.took(now, read, true)
				if m.state != prompt {
					all++
					if int(m.trial.used) == best {
						good++
					}
				}
			}
			now = now.Add(units.Millisecond + units.Duration(random.Int64N(int64(5*units.Millisecond))))
		}
		require.Greater(t, all, 10_000)
		require.Greater(t, good, all*9/10, "pauses[%d], of %d reads", best, all)
	}
}

// BenchmarkPingBesideStream is a round trip of 8 bytes each way beside a stream, where the end that receives both pauses for so long, or never.
func BenchmarkPingBesideStream(b *testing.B) {
	for setting := -1; setting < len(pauses); setting++ {
		name := "none"
		if setting >= 0 {
			name = pauses[setting].String()
		}
		b.Run(name, func(b *testing.B) { benchmarkPing(b, setting) })
	}
}

func benchmarkPing(b *testing.B, setting int) {
	const pingCookie, train, window = testCookie + 1, 15, 128
	near, far := newPair(b, false)
	ping := func(s *side) backend.QP {
		q, err := s.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: s.cq, RecvCQ: s.cq, Table: s.table, Cookie: pingCookie, Channel: 1, MTU: 4096})
		require.NoError(b, err)
		return q
	}
	there, back := ping(near), ping(far)
	require.NoError(b, there.Connect(back.Info()))
	require.NoError(b, back.Connect(there.Info()))
	write := func(from, to *side, n uint64, length units.Bytes) []backend.Write {
		rkey, va := to.expose(n, units.Bytes(n)*testMax, length)
		return from.message(rkey, va, length, 4096)
	}
	stream, question, answer := write(near, far, 0, train*4096), write(near, far, 1, 8), write(far, near, 0, 8)
	m := &far.d.receivers[0].rhythm
	if m.state = unmoderated; setting >= 0 {
		m.begin(leastModerated) // whatever this machine grants
		m.trial.kept, m.trial.used, m.trial.wait = uint8(setting), uint8(setting), math.MaxInt
	}
	var stop atomic.Bool
	var received atomic.Int64
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !stop.Load() {
			var n int
			n, err = far.cq.Poll(far.d.Now(), far.batch[:])
			for i := range far.batch[:n] {
				if err == nil && far.batch[i].Cookie == pingCookie {
					_, err = back.PostWrites(far.d.Now(), answer)
				}
			}
			received.Add(int64(n))
		}
		ended <- err
	}()
	b.ResetTimer()
	begun, sent, times := near.d.Now(), int64(0), make([]units.Duration, 0, b.N)
	for len(times) < b.N {
		asked := near.d.Now()
		_, err := there.PostWrites(asked, question)
		require.NoError(b, err)
		sent++
		for n := 0; n == 0; {
			if sent-received.Load() < window {
				near.post(stream...)
				sent += train
			}
			n, err = near.cq.Poll(near.d.Now(), near.batch[:])
			require.NoError(b, err)
			require.Less(b, near.d.Now().Sub(asked), 10*units.Second, "no answer")
		}
		times = append(times, near.d.Now().Sub(asked))
	}
	stop.Store(true)
	require.NoError(b, <-ended)
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e3, "µs-p50")
	b.ReportMetric(float64(times[len(times)*99/100])/1e3, "µs-p99")
	b.ReportMetric(float64(received.Load())*4096*8/float64(near.d.Now().Sub(begun)), "Gbit/s")
}
