// SPDX-License-Identifier: Apache-2.0

package mprdma

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/channeltest"
	"github.com/sdr-rdma/go-sdr/units"
)

// ends makes both ends of a message of n packets on a path of 10 packets.
func ends(t testing.TB, c Config, n int) (*sender, *receiver) {
	t.Helper()
	require.NoError(t, c.Validate())
	m := transport.Message{Size: units.Bytes(n)*1000 - 1, MTU: 1000, LineRate: units.Gbit, BaseRTT: 72 * units.Microsecond}
	s, r := c.Factory()(m)
	return s.(*sender), r.(*receiver)
}

func sendAll(s *sender, now units.Instant) (out []transport.Packet) {
	var p transport.Packet
	for s.Transmit(now, &p) {
		out = append(out, p)
	}
	return out
}

func answer(r *receiver, p transport.Packet) transport.Packet {
	var out transport.Replies
	r.OnPacket(0, &p, &out)
	return *out.At(0)
}

// The first window is one product, on many paths; each answer lets one packet follow on its own path, and two where the
// window has grown by one.
func TestClock(t *testing.T) {
	s, r := ends(t, Config{}, 1000)
	first := sendAll(s, 0)
	require.Len(t, first, 10)
	seen := map[uint16]bool{}
	for _, p := range first {
		seen[p.Entropy] = true
	}
	require.Len(t, seen, 10)
	s.probeAt = units.Never
	sent := 0
	for _, p := range first {
		a := answer(r, p)
		s.OnPacket(100, &a)
		next := sendAll(s, 100)
		require.LessOrEqual(t, len(next), 2)
		for _, n := range next {
			require.Equal(t, p.Entropy, n.Entropy)
		}
		sent += len(next)
	}
	require.InDelta(t, 11, s.window, 0.1, "a packet more in a round trip")
	require.InDelta(t, s.window, sent, 1)
	require.EqualValues(t, sent, s.flight())
}

// A mark takes half a packet from the window, an answer from far behind a whole one, and its path is not used again.
func TestMarksAndSlowPaths(t *testing.T) {
	s, r := ends(t, Config{Delta: 4}, 1000)
	s.probeAt = units.Never
	first := sendAll(s, 0)
	first[0].Flags |= transport.CE
	marked := answer(r, first[0])
	require.NotZero(t, marked.Flags&transport.Echo)
	s.OnPacket(100, &marked)
	require.InDelta(t, 9.5, s.window, 1e-9)
	require.Empty(t, sendAll(s, 100), "the window has shrunk below what is under way")
	for _, p := range first[2:] {
		a := answer(r, p)
		s.OnPacket(100, &a)
	}
	sendAll(s, 100)
	before := s.window
	late := answer(r, first[1])
	s.OnPacket(200, &late)
	require.InDelta(t, before-1, s.window, 1e-9)
	require.Empty(t, sendAll(s, 200))

	// Where a slow answer is the last to come and nothing may be sent, one packet may, on a path that is drawn.
	for _, left := range []int{0, 1} {
		s, r = ends(t, Config{Delta: 4, Initial: 8}, 1000)
		s.probeAt = units.Never
		first, s.window = sendAll(s, 0), 1
		for _, p := range first[1:] {
			p.Flags |= transport.CE
			a := answer(r, p)
			s.OnPacket(100, &a)
		}
		for range left {
			s.paths.Push(first[7].Entropy)
		}
		late = answer(r, first[0])
		s.OnPacket(100, &late)
		last := sendAll(s, 100)
		require.Len(t, last, 1)
		require.Equal(t, left == 1, last[0].Entropy == first[7].Entropy)
	}
}

// One round trip in a hundred tries a path that is drawn.
func TestNewPaths(t *testing.T) {
	s, r := ends(t, Config{Initial: 1}, 1<<16)
	for _, spacing := range []units.Duration{72 * units.Microsecond, 0} {
		now, drawn, path := units.Instant(0), 0, -1
		for range 20_000 {
			p := sendAll(s, now)
			require.Len(t, p, 1)
			if path >= 0 && int(p[0].Entropy) != path {
				drawn++
			}
			path = int(p[0].Entropy)
			p[0].Flags |= transport.CE // keeps the window as it is
			a := answer(r, p[0])
			now = now.Add(spacing)
			s.OnPacket(now, &a)
			require.Equal(t, spacing, s.rtt)
		}
		if spacing > 0 {
			require.InDelta(t, 200, drawn, 60)
			s.probeAt = units.Instant(units.Second)
		} else {
			require.Zero(t, drawn)
		}
	}
}

// The timer runs while something is under way, from the last progress on; when it is due the sender goes back, and then heeds a NAK again.
func TestTimeout(t *testing.T) {
	s, r := ends(t, Config{Bitmap: 4, Initial: 8}, 100)
	first := sendAll(s, 0)
	require.Equal(t, units.Instant(defaultRTO), s.Next())
	nak := answer(r, first[5])
	s.OnPacket(50, &nak)
	sendAll(s, 50)
	a := answer(r, first[0])
	s.OnPacket(100, &a)
	sendAll(s, 100)
	due := units.Instant(100).Add(defaultRTO)
	require.Equal(t, due, s.Next())
	s.OnTimer(due - 1)
	require.Empty(t, sendAll(s, due-1))
	s.OnPacket(due-1, &transport.Packet{Kind: transport.Nak, PSN: 5, Expected: 1})
	require.Empty(t, sendAll(s, due-1), "a second NAK in one pass")
	s.paths.Push(0) // goes with all that might have been sent
	s.OnTimer(due)
	require.Equal(t, transport.Counts{Repeated: 8, Timeouts: 1}, s.Counts())
	require.Equal(t, due.Add(defaultRTO), s.Next())
	require.Len(t, sendAll(s, due), int(s.window))
	s.OnPacket(due, &transport.Packet{Kind: transport.Nak, PSN: 5, Expected: 1})
	again := sendAll(s, due)
	require.Len(t, again, int(s.window), "it is a new pass")
	a = transport.Packet{Kind: transport.Ack, Expected: again[len(again)-1].PSN + 1, Sent: due, PSN: 1}
	s.OnPacket(due+1, &a)
	require.Equal(t, units.Never, s.Next(), "nothing is under way")
	require.Zero(t, s.recover)
}

// What the receiver has no bit for is refused; the sender goes back once, to what is missing.
func TestGoBack(t *testing.T) {
	s, r := ends(t, Config{Bitmap: 4, Initial: 8}, 100)
	first := sendAll(s, 0)
	for _, p := range first[1:4] {
		require.Equal(t, transport.Ack, answer(r, p).Kind)
	}
	nak := answer(r, first[4])
	require.Equal(t, transport.Nak, nak.Kind)
	require.Zero(t, nak.Expected)
	s.OnPacket(100, &nak)
	again := sendAll(s, 100)
	require.Len(t, again, 8, "a window")
	require.Zero(t, again[0].PSN)
	require.NotZero(t, again[0].Flags&transport.Repeat)
	s.OnPacket(101, &nak)
	require.Empty(t, sendAll(s, 101), "once")
	a := answer(r, again[0])
	require.EqualValues(t, 4, a.Expected, "what was placed out of order counts")
	require.Zero(t, s.Counts().Timeouts)
}

// Whatever the channel does to packets of both directions, the message arrives and both ends know, and never is more under way than
// the largest window; a factory's flows draw different paths, and the same again.
func TestBadChannel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := Config{Delta: r.IntN(65), Bitmap: r.IntN(3) * 16, Initial: r.IntN(40), RTO: 20 * units.Microsecond}
		n := 1 + r.IntN(150)
		s, rcv := ends(t, c, n)
		loss := r.Float64() * 0.2
		channel := channeltest.Channel{
			Rand: r, Loss: loss, Size: units.Bytes(n)*1000 - 1,
			Fly: func(p *transport.Packet) {
				if r.IntN(4) == 0 {
					p.Flags |= transport.CE
				}
			},
			Sent:   func() { require.LessOrEqual(t, s.next-s.una, s.acked.Bits(), "seed %d", seed) },
			Heard:  func() { require.GreaterOrEqual(t, s.window, 1.0, "seed %d", seed) },
			Placed: func(out *transport.Replies) bool { return out.At(0).Kind == transport.Ack },
		}
		channel.Carry(t, seed, s, rcv, n)
		require.Zero(t, s.flight(), "seed %d", seed)
	}
}

func TestPathsAreDrawn(t *testing.T) {
	f := (&Config{Seed: 1}).Factory()
	m := transport.Message{Size: 100_000, MTU: 1000, LineRate: units.Gbit, BaseRTT: 72 * units.Microsecond}
	a, _ := f(m)
	b, _ := f(m)
	c, _ := (&Config{Seed: 1}).Factory()(m)
	pa, pb, pc := sendAll(a.(*sender), 0), sendAll(b.(*sender), 0), sendAll(c.(*sender), 0)
	require.NotEqual(t, pa, pb)
	require.Equal(t, pa, pc)
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{Initial: -1}, {Delta: -1}, {Bitmap: mostPackets + 1}, {RTO: -1}} {
		require.Error(t, c.Validate(), "%+v", c)
	}
}

func TestNoAllocation(t *testing.T) {
	s, r := ends(t, Config{}, 1<<20)
	var p transport.Packet
	var out transport.Replies
	now := units.Instant(0)
	step := func() {
		now += 1000
		for s.Transmit(now, &p) {
			p.Flags |= transport.CE // keeps the window as it is
			out.Reset()
			r.OnPacket(now, &p, &out)
			s.OnPacket(now, out.At(0))
		}
		if s.paths.Len() == 0 && s.flight() == 0 {
			s.allow(1)
		}
	}
	for range 1000 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
}
