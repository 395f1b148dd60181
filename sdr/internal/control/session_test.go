// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

const ms = units.Millisecond

// drain polls s until it has nothing to say and returns the frames.
func drain(t *testing.T, s *Session, now units.Instant) (frames []wire.Frame, next units.Instant) {
	t.Helper()
	buf := make([]byte, 0, s.maxLen)
	for range 100 {
		var b []byte
		if b, next = s.Poll(now, buf); len(b) == 0 {
			return frames, next
		}
		require.LessOrEqual(t, len(b), s.maxLen)
		_, rest, err := wire.ParseHeader(b)
		require.NoError(t, err)
		r := wire.NewReader(rest)
		var f wire.Frame
		for r.Next(&f) {
			f.Bytes = append([]byte(nil), f.Bytes...)
			frames = append(frames, f)
		}
		require.NoError(t, r.Err())
	}
	t.Fatal("Poll never becomes empty")
	return nil, 0
}

func TestCopiesThenTrainsThenBackoff(t *testing.T) {
	s := NewSession(0, 7, 1024)
	s.time.sample(0, InitialRTT)
	s.Put(0, wire.Frame{Type: wire.TypeStart, ID: 3, Length: 100}, 3)
	var at []units.Instant
	now := units.Instant(0)
	for now < units.Instant(6*units.Second) {
		frames, next := drain(t, s, now)
		for range frames {
			at = append(at, now)
		}
		require.Greater(t, next, now)
		now = next
	}
	require.Equal(t, units.Instant(0), at[0])
	spacing := (InitialRTT / 64)
	require.Equal(t, spacing, at[1].Sub(at[0]))
	require.Equal(t, spacing, at[2].Sub(at[1]))
	// A frame that nobody acknowledges is repeated in trains: the first, of firstTrain copies, after a round trip, the
	// second, a shorter one, after two more, and so on up to MaxBackoff.
	require.Greater(t, at[3].Sub(at[2]), InitialRTT)
	for i := 4; i <= 3+firstTrain; i++ {
		require.Equal(t, InitialRTT/perRTT, at[i].Sub(at[i-1]))
	}
	require.Greater(t, at[4+firstTrain].Sub(at[3+firstTrain]), 2*InitialRTT)
	require.Equal(t, InitialRTT/perRTT, at[4+firstTrain+trainLength].Sub(at[3+firstTrain+trainLength]))
	require.Greater(t, at[5+firstTrain+trainLength].Sub(at[4+firstTrain+trainLength]), 4*InitialRTT)
	last := at[len(at)-1].Sub(at[len(at)-2])
	require.Equal(t, MaxBackoff, last)
	require.Less(t, len(at), firstTrain+8*trainLength)
	require.Equal(t, uint64(len(at)-3), s.Stats.Repeated)

	require.Equal(t, 1, s.Unacked())
	s.Handle(now, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeStart), ID: 3, Count: 1})
	require.Zero(t, s.Unacked())
	_, next := drain(t, s, now)
	require.Equal(t, units.Never, next)
}

// TestContended: where a datagram more delays others by more than a hundredth of a round trip copies are spared; what isn't acknowledged is
// repeated as ever.
func TestContended(t *testing.T) {
	for _, c := range []struct {
		contention units.Duration
		copies     int
	}{{InitialRTT / 100, 2}, {InitialRTT/100 + 1, 0}} {
		s := NewSession(0, 7, 1024)
		s.time.sample(0, InitialRTT)
		s.SetContention(c.contention)
		s.Put(0, wire.Frame{Type: wire.TypeStart, ID: 3, Length: 100}, 3)
		sent := 0
		for now := units.Instant(0); now < units.Instant(s.time.repeatAfter()); {
			frames, next := drain(t, s, now)
			sent += len(frames)
			now = next
		}
		require.Equal(t, 1+c.copies, sent)
		frames, _ := drain(t, s, units.Instant(2*s.time.repeatAfter()))
		require.Len(t, frames, 1)
	}
}

// TestAgain: a peer that has come after a frame was sent gets it at once, unless it has acknowledged it, and from then on as often as if that
// had been the first time.
func TestAgain(t *testing.T) {
	start := wire.Frame{Type: wire.TypeStart, ID: 3, Length: 100}
	from := func(begin units.Instant, s *Session) (after []units.Duration) {
		for now := begin; now < begin.Add(3*units.Second); {
			frames, next := drain(t, s, now)
			for range frames {
				after = append(after, now.Sub(begin))
			}
			now = next
		}
		return after
	}
	fresh := NewSession(0, 7, 1024)
	fresh.Put(0, start, 1)
	want := from(0, fresh)
	s := NewSession(0, 7, 1024)
	s.Put(0, start, 1)
	s.Put(0, wire.Frame{Type: wire.TypeCTS, ID: 4, Length: 100}, 1)
	frames, next := drain(t, s, 0)
	require.Len(t, frames, 2)
	require.Greater(t, next, units.Instant(2*ms))
	s.Handle(1, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), ID: 4, Count: 1})
	s.Again(units.Instant(2 * ms))
	require.Equal(t, want, from(units.Instant(2*ms), s))
}

// TestHeldBack: acknowledgements and frames of PutSoon wait for a frame that goes at once, but no longer than HoldBack allows; a frame
// is repeated only when its acknowledgement, which the peer may hold back as long, is late.
func TestHeldBack(t *testing.T) {
	const hold = 200 * units.Microsecond
	s := NewSession(0, 7, 1024)
	s.HoldBack(hold)
	s.time.sample(0, 40*units.Microsecond)
	receive := func(now units.Instant) {
		s.Receive(now, wire.Header{}, nil, 0)
		s.Ack(wire.TypeCompleted, 5)
		s.PutSoon(now, wire.Frame{Type: wire.TypeEnd, ID: 3}, 1)
	}
	receive(1000)
	frames, next := drain(t, s, 1000)
	require.Empty(t, frames)
	require.Equal(t, units.Instant(1000).Add(hold), next)

	s.Put(2000, wire.Frame{Type: wire.TypeStart, ID: 4}, 3)
	frames, next = drain(t, s, 2000)
	require.Len(t, frames, 3, "the three go together")
	require.Equal(t, (40+4*20)*units.Microsecond+hold, next.Sub(2000), "the copy of START")
	at := next.Add(-hold / 2)
	s.PutSoon(at, wire.Frame{Type: wire.TypeStart, ID: 5}, 1)
	require.Equal(t, next, s.next(), "the copy is due as it was")
	for id, n := range []int{2, 1} { // it goes along once
		s.Put(at, wire.Frame{Type: wire.TypeStart, ID: uint64(6 + id)}, 1)
		require.Len(t, first(drain(t, s, at)), n)
	}

	receive(at)
	frames, _ = drain(t, s, at.Add(hold))
	require.Subset(t, frames, []wire.Frame{{Type: wire.TypeAck, Code: uint8(wire.TypeCompleted), ID: 5, Count: 1}, {Type: wire.TypeEnd, ID: 3}}, "alone, in the end")

	at = at.Add(hold)
	s.Receive(at, wire.Header{}, nil, 0)
	s.Ack(wire.TypeReliable, 0)
	frames, _ = drain(t, s, at)
	require.Len(t, frames, 1, "the peer may wait for it")
}

// TestNothingToSay: what was due first has been acknowledged, and what else waits isn't due yet: a datagram that only says the window again
// is none.
func TestNothingToSay(t *testing.T) {
	s := NewSession(0, 7, 1024)
	s.SetWindow(1 << 20)
	s.Put(0, wire.Frame{Type: wire.TypeStart, ID: 3, Length: 100}, 2)
	_, due := drain(t, s, 0)
	s.Put(due-1, wire.Frame{Type: wire.TypeStart, ID: 4, Length: 100}, 2)
	frames, next := drain(t, s, due-1)
	require.Len(t, frames, 2) // WINDOW and the new one
	require.Equal(t, due, next)
	s.Handle(due, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeStart), ID: 3, Count: 1})
	sent := s.Stats.DatagramsSent
	frames, next = drain(t, s, due)
	require.Empty(t, frames)
	require.Equal(t, sent, s.Stats.DatagramsSent)
	require.Greater(t, next, due, "the copy of the other")
	frames, _ = drain(t, s, next)
	require.Len(t, frames, 2)
}

// TestSaidBeforeAnythingIsHeard: who connects names the address that datagrams go to, and may name somebody else's. What goes there until
// QPConfig.ConnectTimeout is what SECURITY.md says.
func TestSaidBeforeAnythingIsHeard(t *testing.T) {
	const connectTimeout = 5 * units.Second
	s := NewSession(0, 7, 4096)
	s.SetActivity(0, Active)
	s.SetWindow(1 << 20)
	s.Put(0, wire.Frame{Type: wire.TypeCTS, ID: 0, Length: 4096, RKey: 1 << 31, VA: 1 << 63}, 1)
	for now := units.Instant(0); now < units.Instant(connectTimeout); {
		_, now = drain(t, s, now)
	}
	require.Less(t, s.Stats.DatagramsSent, uint64(400))
	require.Less(t, s.Stats.BytesSent, uint64(400*50))
}

// TestPeerComesLate: however long nothing is answered, what waits for the peer is said as often as all else, so that one that comes late, or a path
// that was dead, doesn't find this end asleep.
func TestPeerComesLate(t *testing.T) {
	s := NewSession(0, 7, 1024)
	s.SetActivity(0, Active)
	s.Put(0, wire.Frame{Type: wire.TypeCTS, ID: 3, Length: 100}, 1)
	for last, now := units.Instant(0), units.Instant(0); now < units.Instant(units.Minute); {
		frames, next := drain(t, s, now)
		for _, f := range frames {
			if f.Type == wire.TypeCTS {
				require.LessOrEqual(t, now.Sub(last), MaxBackoff, "at %v", now)
				last = now
			}
		}
		now = next
	}
}

// What nothing waits for is repeated by single frames.
func TestEndIsRepeatedSingly(t *testing.T) {
	s := NewSession(0, 7, 1024)
	s.Put(0, wire.Frame{Type: wire.TypeEnd, ID: 3, Length: 100}, 1)
	sent := 0
	for now := units.Instant(0); now < units.Instant(6*units.Second); {
		frames, next := drain(t, s, now)
		sent += len(frames)
		now = next
	}
	require.Less(t, sent, 15)
	require.Greater(t, sent, 5)
}

func TestAckListsWhatWasReceived(t *testing.T) {
	s := NewSession(0, 7, 1024)
	for _, id := range []uint64{5, 6, 7, 7, 6, 20} {
		s.Ack(wire.TypeCTS, id)
	}
	s.Ack(wire.TypeEnd, 21)
	frames, _ := drain(t, s, 0)
	require.Equal(t, []wire.Frame{
		{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), ID: 5, Count: 3},
		{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), ID: 20, Count: 1},
		{Type: wire.TypeAck, Code: uint8(wire.TypeEnd), ID: 21, Count: 1},
	}, frames)
	for i := range uint64(10 * maxAcks) { // a flood stays bounded
		s.Ack(wire.TypeEnd, 3*i)
	}
	require.LessOrEqual(t, len(s.acks), maxAcks)
	frames, _ = drain(t, s, 0)
	require.Len(t, frames, maxAcks)

	s = NewSession(0, 7, 256) // as short as datagrams ever are
	for i := range uint64(10 * maxPongs) {
		require.True(t, s.Handle(0, wire.Header{}, &wire.Frame{Type: wire.TypePing, ID: 1<<64 - 1 - i}))
	}
	frames, _ = drain(t, s, 0)
	require.Len(t, frames, maxPongs)
}

func TestOutstanding(t *testing.T) {
	s := NewSession(0, 7, 1024)
	s.Put(0, wire.Frame{Type: wire.TypeEnd, ID: 1}, 1)
	s.Put(0, wire.Frame{Type: wire.TypeCTS, ID: 2}, 1)
	s.Put(0, wire.Frame{Type: wire.TypeCTS, ID: 4}, 1)
	require.True(t, s.SendReliable(0, 3, true, []byte("rows")))
	s.Handle(0, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), ID: 2, Count: 1})
	r := wire.NewReader(s.Outstanding(nil))
	var f wire.Frame
	require.True(t, r.Next(&f))
	require.Equal(t, wire.Frame{Type: wire.TypeCTS, ID: 4}, f)
	require.True(t, r.Next(&f))
	require.Equal(t, wire.Frame{Type: wire.TypeEnd, ID: 1}, f)
	require.False(t, r.Next(&f))
	require.NoError(t, r.Err())
}

// Why a transfer was aborted is what the first ABORT says, until the peer knows it. Of other frames the newest counts.
func TestAbortKeepsItsCode(t *testing.T) {
	s := NewSession(0, 7, 1024)
	for code := range uint8(2) {
		s.Put(0, wire.Frame{Type: wire.TypeAbort, ID: 3, Code: code + 1}, 1)
		s.Put(0, wire.Frame{Type: wire.TypeCompleted, ID: 3, Code: code + 1}, 1)
	}
	frames, _ := drain(t, s, 0)
	require.Equal(t, []wire.Frame{{Type: wire.TypeCompleted, ID: 3, Code: 2}, {Type: wire.TypeAbort, ID: 3, Code: 1}}, frames)
	s.Handle(0, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeAbort), ID: 3, Count: 1})
	s.Put(0, wire.Frame{Type: wire.TypeAbort, ID: 3, Code: 2}, 1)
	frames, _ = drain(t, s, 0)
	require.Equal(t, []wire.Frame{{Type: wire.TypeAbort, ID: 3, Code: 2}}, frames)
}

// The window goes along with all that is said, and SCHEME frames share a datagram.
func TestWindowGoesAlong(t *testing.T) {
	s := NewSession(0, 7, 1024)
	for n := range uint64(3) {
		s.Scheme(1, true, n, []byte{byte(n)})
	}
	s.SetWindow(77)
	frames, next := drain(t, s, 0)
	require.Len(t, frames, 4)
	require.Equal(t, wire.Frame{Type: wire.TypeWindow, Length: 77}, frames[0])
	require.EqualValues(t, 1, s.Stats.DatagramsSent)
	require.Equal(t, units.Never, next, "it is no reason to say something")
}

func TestLargeStateIsSplit(t *testing.T) {
	s := NewSession(0, 7, 512)
	for i := range uint64(1024) {
		s.Put(0, wire.Frame{Type: wire.TypeCTS, ID: i, Length: 1 << 20, RKey: 0xffffffff, VA: 1 << 60}, 1)
	}
	frames, _ := drain(t, s, 0)
	require.Len(t, frames, 1024)
	s.Handle(0, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), ID: 0, Count: 1000})
	require.Equal(t, 24, s.Unacked())
	frames, _ = drain(t, s, units.Instant(units.Second))
	require.Len(t, frames, 24)
}

func TestPingMeasuresRTT(t *testing.T) {
	fresh := NewSession(0, 7, 1024)
	fresh.Handle(units.Instant(ms), wire.Header{}, &wire.Frame{Type: wire.TypePong})
	_, _, least := fresh.RTT()
	require.Zero(t, least, "an answer to no ping")
	a, b := NewSession(0, 1, 512), NewSession(0, 2, 512)
	a.SetActivity(0, Active)
	now := units.Instant(0)
	for range 50 {
		frames, next := drain(t, a, now)
		for i := range frames {
			b.Handle(now, wire.Header{}, &frames[i])
		}
		pongs, _ := drain(t, b, now.Add(20*ms))
		for i := range pongs {
			a.Handle(now.Add(40*ms), wire.Header{}, &pongs[i])
			a.Handle(now.Add(90*ms), wire.Header{}, &pongs[i]) // a duplicate is no sample
		}
		now = max(next, now.Add(1))
	}
	srtt, _, least := a.RTT()
	require.Equal(t, 40*ms, least)
	require.Equal(t, 40*ms, srtt)
	require.Equal(t, a.nextPing.Add(-a.pingPause), a.Answered(), "when the last ping was sent")
	a.Handle(now, wire.Header{}, &wire.Frame{Type: wire.TypePong, ID: a.pingNo + 1})
	require.Equal(t, a.nextPing.Add(-a.pingPause), a.Answered(), "an answer to nothing")
}

// Round-trip times are smoothed as in RFC 6298, section 2; what isn't acknowledged is repeated after that and four times its
// variation, by no less than an eighth of it and a millisecond.
func TestTiming(t *testing.T) {
	var w timing
	require.Equal(t, InitialRTT, w.rtt())
	for _, c := range []struct{ sample, srtt, rttvar, min, repeat units.Duration }{
		{40 * ms, 40 * ms, 20 * ms, 40 * ms, 120 * ms},
		{60 * ms, 42500 * units.Microsecond, 20 * ms, 40 * ms, 122500 * units.Microsecond},
		{20 * ms, 39687500, 20625 * units.Microsecond, 20 * ms, 122187500},
	} {
		w.sample(0, c.sample)
		require.Equal(t, [3]units.Duration{c.srtt, c.rttvar, c.min}, [3]units.Duration{w.srtt, w.rttvar, w.least.get()})
		require.Equal(t, c.repeat, w.repeatAfter())
	}
	require.Equal(t, 45*ms, (&timing{srtt: 40 * ms, rttvar: ms}).repeatAfter())
	require.Equal(t, 1100*units.Microsecond, (&timing{srtt: 100 * units.Microsecond}).repeatAfter())
	require.Equal(t, 40*ms/perRTT, (&timing{srtt: 40 * ms}).trainSpacing(0, 1))
	require.Equal(t, minTrainSpacing, (&timing{srtt: ms}).trainSpacing(0, 1))
	w = timing{asked: units.Instant(ms)} // and not answered
	require.Equal(t, InitialRTT/perRTT, w.trainSpacing(units.Instant(41*ms), unmeasuredTrain-denseUnanswered))
	require.Equal(t, 10*ms, w.trainSpacing(units.Instant(41*ms), unmeasuredTrain-denseUnanswered-1))
	w = timing{}
	w.sample(0, 0) // by a clock that is coarser than the path
	require.Positive(t, w.srtt)
}

// The least round trip is that of the last half to whole minute of samples, so that a path may become longer. A few samples make no minute: after a
// time without any, what was known before still counts.
func TestLeastRoundTrip(t *testing.T) {
	var l leastRTT
	require.Zero(t, l.get())
	now := units.Instant(5)
	add := func(n int, every, rtt units.Duration) {
		for range n {
			now = now.Add(every)
			l.add(now, rtt)
		}
	}
	add(1, 0, 10*ms)
	add(1, 0, 12*ms)
	require.Equal(t, 10*ms, l.get())
	add(leastSamples/2, leastSpan, 80*ms)
	require.Equal(t, 10*ms, l.get(), "too few samples for a span")
	now = 5
	l = leastRTT{}
	add(1, 0, 10*ms)
	add(10*leastSamples, leastSpan/(10*leastSamples)-1, 80*ms)
	require.Equal(t, 10*ms, l.get(), "a span that isn't over")
	add(1, leastSpan/leastSamples, 80*ms)
	require.Equal(t, 10*ms, l.get(), "that of the span before")
	add(leastSamples, leastSpan/leastSamples, 80*ms)
	require.Equal(t, 80*ms, l.get(), "a longer path")
	add(1, 0, 20*ms)
	require.Equal(t, 20*ms, l.get(), "a shorter one, at once")
}

// TestMeasuresLongRTT: pings that have been under way for 16 s still tell the round trip.
func TestMeasuresLongRTT(t *testing.T) {
	const rtt = 15 * units.Second
	s := NewSession(0, 1, 512)
	s.SetActivity(0, Active)
	type pong struct {
		at units.Instant
		id uint64
	}
	var pongs []pong
	for now := units.Instant(0); now < units.Instant(3*rtt); {
		frames, next := drain(t, s, now)
		for i := range frames {
			pongs = append(pongs, pong{now.Add(rtt), frames[i].ID})
		}
		now = min(next, pongs[0].at)
		if pongs[0].at == now {
			s.Handle(now, wire.Header{}, &wire.Frame{Type: wire.TypePong, ID: pongs[0].id})
			pongs = pongs[1:]
		}
	}
	srtt, _, least := s.RTT()
	require.Equal(t, [2]units.Duration{rtt, rtt}, [2]units.Duration{srtt, least})
	require.Equal(t, pongs[0].at.Add(-rtt-250*ms), s.Answered())
}

// Pings follow each other at the round trip at least, and at ever longer pauses.
func TestPingPauses(t *testing.T) {
	s := NewSession(0, 1, 512)
	s.SetActivity(0, Active)
	var at []units.Instant
	for now := units.Instant(0); len(at) < 8; {
		frames, next := drain(t, s, now)
		require.Len(t, frames, 1)
		at, now = append(at, now), next
	}
	for i, pause := range []units.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 250 * ms, 250 * ms} {
		require.Equal(t, pause, at[i+1].Sub(at[i]))
	}
	s.SetActivity(at[7], Active) // it is already
	require.Empty(t, first(drain(t, s, at[7])))
	s.Put(at[7], wire.Frame{Type: wire.TypeEnd}, 1)
	require.Equal(t, []wire.Frame{{Type: wire.TypeEnd}}, first(drain(t, s, at[7])), "a ping doesn't go along with what else is said")
	s.Handle(at[7], wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeEnd), Count: 1})
	s.SetActivity(at[7], Idle)
	require.Equal(t, units.Never, s.next())
	s.SetActivity(at[7], Active)
	require.Len(t, first(drain(t, s, at[7])), 1)
	require.Equal(t, at[7].Add(InitialRTT), s.next(), "pauses begin anew")
	require.Equal(t, at[7], s.LastReceived(), "so does the watch over the peer")
	for limit, most := range map[units.Duration]units.Duration{800 * ms: 100 * ms, 3 * ms: ms, units.Minute: 250 * ms} {
		s.Silence(limit)
		now := at[7]
		for range 12 {
			_, now = drain(t, s, now)
		}
		require.Equal(t, most, s.pingPause, "for a silence of %v", limit)
	}
}

// TestDormant: while nothing has begun the peer is asked eight times in as long as it may be silent, and as often as ever once something has, or it
// has been silent for half as long.
func TestDormant(t *testing.T) {
	const limit = 30 * units.Second
	s := NewSession(0, 1, 512)
	s.Silence(limit)
	s.SetActivity(0, Dormant)
	asked := func(from, to units.Instant, answers bool) (pings int) {
		for now := from; now < to; {
			frames, next := drain(t, s, now)
			pings += len(frames)
			if now = next; answers {
				s.Receive(now, wire.Header{}, nil, 0)
			}
		}
		return pings
	}
	at := func(sec int) units.Instant { return units.Instant(sec) * units.Instant(units.Second) }
	asked(0, at(60), true)
	require.Equal(t, 16, asked(at(60), at(120), true))
	require.InDelta(t, 60, asked(at(120), at(150), false), 6, "for half the time it is asked seldom, and then each 250 ms")
	s.Receive(at(150), wire.Header{}, nil, 0)
	asked(at(150), at(160), true)
	s.SetActivity(at(160), Active)
	require.LessOrEqual(t, s.next(), at(160).Add(250*ms))
	require.InDelta(t, 40, asked(at(160), at(170), true), 1)
}

// An end that couldn't receive for a while asks its peer anew whether it lives, before it takes it for dead; and once only until it hears
// something.
func TestExcuse(t *testing.T) {
	s := NewSession(0, 1, 512)
	s.SetActivity(0, Active)
	drain(t, s, 0)
	late := units.Instant(10 * units.Second)
	drain(t, s, late)
	late = late.Add(1)
	require.True(t, s.Excuse(late))
	require.Equal(t, late, s.LastReceived(), "the watch begins anew")
	require.Len(t, first(drain(t, s, late)), 1, "a ping at once")
	require.Equal(t, late.Add(InitialRTT), s.next(), "and others soon after")
	require.False(t, s.Excuse(late.Add(ms)))
	require.Equal(t, late, s.LastReceived())
	s.Receive(late.Add(2*ms), wire.Header{}, nil, 0)
	require.True(t, s.Excuse(late.Add(3*ms)))
	s.SetActivity(late.Add(4*ms), Idle)
	s.SetActivity(late.Add(4*ms), Active)
	require.True(t, s.Excuse(late.Add(5*ms)), "other work, and a watch of its own")
}

func first(frames []wire.Frame, _ units.Instant) []wire.Frame { return frames }

func TestWindowComesFromTheNewestDatagram(t *testing.T) {
	s := NewSession(0, 1, 512)
	get := func(number uint32, w uint64) {
		h := wire.Header{Number: number}
		s.Receive(0, h, nil, 0)
		s.Handle(0, h, &wire.Frame{Type: wire.TypeWindow, Length: w})
	}
	get(5, 500)
	get(4, 400)
	w, ok := s.PeerWindow()
	require.True(t, ok)
	require.Equal(t, uint64(500), w)

	// Numbers go on behind 2^32.
	s = NewSession(0, 1, 512)
	for i, c := range []struct {
		number uint32
		newest bool
	}{{1<<31 - 1, true}, {1<<31 + 1, true}, {1 << 31, false}, {1<<32 - 1, true}, {2, true}, {1<<32 - 2, false}, {1, false}, {3, true}} {
		before, _ := s.PeerWindow()
		get(c.number, uint64(i+1))
		after, _ := s.PeerWindow()
		require.Equal(t, c.newest, after != before, "datagram %d", c.number)
	}
}

func TestSchemeQueueIsBounded(t *testing.T) {
	s := NewSession(0, 1, 512)
	for i := range uint64(3*maxQueued + 1) {
		s.Scheme(1, true, i, make([]byte, s.MaxScheme()))
	}
	frames, _ := drain(t, s, 0)
	require.Len(t, frames, maxQueued)
	require.Equal(t, uint64(3*maxQueued), frames[maxQueued-1].Number, "the newest survive")
}

// TestLongestSchemeFits: it goes in one datagram with a window, and with a ping, whatever their numbers are.
func TestLongestSchemeFits(t *testing.T) {
	s := NewSession(0, 1, 512)
	s.SetActivity(0, Active)
	s.SetWindow(math.MaxInt64)
	s.pingNo = math.MaxUint64 - 1
	s.Scheme(math.MaxUint64, true, math.MaxUint64, make([]byte, s.MaxScheme()))
	require.Len(t, first(drain(t, s, 0)), 3)
	require.EqualValues(t, 1, s.Stats.DatagramsSent)
}

// TestDatagramsAreNumbered from 1, and counted at both ends.
func TestDatagramsAreNumbered(t *testing.T) {
	a, b := NewSession(0, 1, 512), NewSession(0, 2, 512)
	for i := range uint32(3) {
		a.Put(0, wire.Frame{Type: wire.TypeEnd, ID: uint64(i)}, 1)
		d, _ := a.Poll(0, make([]byte, 0, 512))
		h, rest, err := wire.ParseHeader(d)
		require.NoError(t, err)
		require.Equal(t, wire.Header{ConnID: 1, Number: i + 1}, h)
		b.Receive(0, h, rest, len(d))
		require.Equal(t, a.Stats, Stats{DatagramsSent: b.Stats.DatagramsReceived, BytesSent: b.Stats.BytesReceived})
	}
}

// TestAckOfNothing: only what is repeated until acknowledged can be.
func TestAckOfNothing(t *testing.T) {
	s := NewSession(0, 1, 512)
	for code := range 256 {
		s.Handle(0, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(code), Count: math.MaxUint64})
	}
	require.EqualValues(t, 256-len(order), s.Stats.Violations)
}

// TestReliable: RELIABLE frames are numbered, and accepted once and in their order. What is unacknowledged is bounded.
func TestReliable(t *testing.T) {
	s := NewSession(0, 1, 2048)
	s.AcceptReliable()
	for _, c := range []struct {
		id             uint64
		next, accepted bool
	}{{0, false, true}, {1, true, false}, {2, false, false}, {MaxReliable, false, false}, {MaxReliable + 1, false, false}} {
		next, accepted := s.CheckReliable(c.id)
		require.Equal(t, c.next, next, "frame %d", c.id)
		require.Equal(t, c.accepted, accepted, "frame %d", c.id)
	}
	require.Equal(t, Stats{Duplicates: 1, Violations: 1}, s.Stats)

	const transfer = 9
	ack := func(id, count uint64) {
		s.Handle(0, wire.Header{}, &wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeReliable), ID: id, Count: count})
	}
	long := make([]byte, s.MaxScheme())
	require.False(t, s.SendReliable(0, transfer, true, append(long, 0)))
	for s.ReliableBytes()+len(long) <= MaxReliableBytes {
		require.True(t, s.SendReliable(0, transfer, true, long))
	}
	n := uint64(s.UnackedOf(wire.TypeReliable))
	left := MaxReliableBytes - s.ReliableBytes()
	require.False(t, s.SendReliable(0, transfer, true, long[:left+1]))
	require.True(t, s.SendReliable(0, transfer, true, long[:left]))
	ack(1, 1)
	require.Equal(t, MaxReliableBytes-len(long), s.ReliableBytes())
	ack(0, n)
	require.Equal(t, left, s.ReliableBytes())
	ack(n, 1)
	s.Put(0, wire.Frame{Type: wire.TypeStart, ID: transfer}, 1)
	for _, b := range [][]byte{{1}, nil} {
		require.False(t, s.SendReliable(0, transfer, false, b), "to a half that may not exist yet")
	}
	require.True(t, s.SendReliable(0, transfer+1, false, nil))
	ack(n+1, 1)
	for range MaxReliable {
		require.True(t, s.SendReliable(0, transfer, true, nil))
	}
	require.False(t, s.SendReliable(0, transfer, true, nil))
	frames, _ := drain(t, s, 0)
	require.Equal(t, wire.TypeStart, frames[0].Type)
	for i, f := range frames[1:] {
		require.Equal(t, wire.Frame{Type: wire.TypeReliable, ID: n + 2 + uint64(i), Transfer: transfer, ToSender: true}, f)
	}
}

// TestEveryFrameArrives loses, repeats and delays datagrams of both directions.
func TestEveryFrameArrives(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	a, b := NewSession(0, 1, 256), NewSession(0, 2, 256)
	got := map[uint64]bool{}
	for i := range uint64(300) {
		a.Put(0, wire.Frame{Type: wire.TypeEnd, ID: i, Length: i}, 1)
	}
	buf := make([]byte, 0, 256)
	move := func(from, to *Session, now units.Instant) {
		for {
			d, _ := from.Poll(now, buf)
			if len(d) == 0 {
				return
			}
			if rng.IntN(2) == 0 {
				continue
			}
			h, rest, _ := wire.ParseHeader(d)
			r := to.Receive(now, h, rest, len(d))
			var f wire.Frame
			for r.Next(&f) {
				if !to.Handle(now, h, &f) {
					got[f.ID] = true
					to.Ack(f.Type, f.ID)
				}
			}
		}
	}
	for now := units.Instant(0); a.Unacked() > 0; now = now.Add(10 * ms) {
		require.Less(t, now, units.Instant(60*units.Second), "seed %d", seed)
		move(a, b, now)
		move(b, a, now)
	}
	require.Len(t, got, 300)
}
