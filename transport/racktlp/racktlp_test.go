// SPDX-License-Identifier: Apache-2.0

package racktlp

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/channeltest"
	"github.com/sdr-rdma/go-sdr/units"
)

const us = units.Microsecond

// ends makes both ends of a message of n packets on a path of 10 packets and 72 µs.
func ends(t testing.TB, c Config, n int) (*sender, *receiver) {
	t.Helper()
	require.NoError(t, c.Validate())
	m := transport.Message{Size: units.Bytes(n)*1000 - 1, MTU: 1000, LineRate: units.Gbit, BaseRTT: 72 * us}
	s, r := c.Factory()(m)
	return s.(*sender), r.(*receiver)
}

// send takes what there is to send, a packet each 8 µs as the line has it.
func send(s *sender, now units.Instant) (out []transport.Packet) {
	var p transport.Packet
	for s.Transmit(now, &p) {
		out = append(out, p)
		now = now.Add(8 * us)
	}
	return out
}

func answer(r *receiver, p transport.Packet) transport.Packet {
	var out transport.Replies
	r.OnPacket(0, &p, &out)
	return *out.At(0)
}

// What lies beyond what the receiver keeps track of isn't answered, nor taken for what does.
func TestBeyondSpan(t *testing.T) {
	_, r := ends(t, Config{}, 1000)
	var out transport.Replies
	r.OnPacket(0, &transport.Packet{Kind: transport.Data, PSN: r.have.Bits() + 1}, &out)
	require.Zero(t, out.Len())
	require.EqualValues(t, 1, answer(r, transport.Packet{Kind: transport.Data}).Expected)
}

// give hands the answer to a packet to the sender, one round trip after it was sent.
func give(s *sender, r *receiver, p transport.Packet) units.Instant {
	a := answer(r, p)
	now := p.Sent.Add(72 * us)
	s.OnPacket(now, &a)
	return now
}

// A packet is repeated when a later one has been acknowledged and two round trips have passed since it was sent, and not before; so is
// its repeat, without a timeout.
func TestLossIsFoundByTime(t *testing.T) {
	s, r := ends(t, Config{}, 1000)
	first := send(s, 0)
	require.Len(t, first, 10)
	give(s, r, first[0])
	now := give(s, r, first[2]) // 1 is lost
	due := first[1].Sent.Add(144 * us)
	require.Equal(t, due, s.Next())
	second := send(s, now)
	require.Equal(t, uint32(10), second[0].PSN, "what is new goes on")
	for _, p := range first[3:] {
		now = give(s, r, p)
	}
	require.Less(t, now, due)
	s.OnTimer(due - 1)
	second = append(second, send(s, due-1)...)
	require.Equal(t, uint32(12), second[2].PSN, "not yet")
	s.OnTimer(due)
	repeat := send(s, due)
	require.Equal(t, []uint32{1}, []uint32{repeat[0].PSN})
	require.NotZero(t, repeat[0].Flags&transport.Repeat)
	// The repeat is lost, too: what is sent after it shows that.
	for _, p := range second {
		now = give(s, r, p)
	}
	for _, p := range send(s, max(now, due+1)) {
		require.Greater(t, p.PSN, uint32(12))
		give(s, r, p)
	}
	s.OnTimer(due.Add(144 * us))
	again := send(s, due.Add(144*us))
	require.Equal(t, uint32(1), again[0].PSN)
	require.Zero(t, s.Counts().Timeouts)
}

// Reordering within a round trip repeats nothing.
func TestReorderingRepeatsNothing(t *testing.T) {
	s, r := ends(t, Config{}, 10)
	first := send(s, 0)
	for _, i := range []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0} {
		a := answer(r, first[i])
		now := units.Instant(150 * us) // a round trip of 150 µs for the first, of 78 for the last
		if s.Next() <= now {
			s.OnTimer(now)
		}
		require.Empty(t, send(s, now))
		s.OnPacket(now, &a)
	}
	require.True(t, s.Done())
	require.Zero(t, s.Counts())
}

// The end of a message is lost: after two round trips a probe, the last packet again, shows it, and what was before it
// follows, without a timeout.
func TestTailLossProbe(t *testing.T) {
	s, r := ends(t, Config{}, 10)
	first := send(s, 0)
	var now units.Instant
	for _, p := range first[:7] { // 7, 8, 9 are lost
		now = give(s, r, p)
	}
	require.Equal(t, now.Add(144*us), s.Next())
	now = s.Next()
	s.OnTimer(now)
	require.Greater(t, s.Next(), now)
	probe := send(s, now)
	require.Len(t, probe, 1)
	require.Equal(t, uint32(9), probe[0].PSN)
	now = give(s, r, probe[0])
	again := send(s, now)
	require.Len(t, again, 2)
	require.Equal(t, []uint32{7, 8}, []uint32{again[0].PSN, again[1].PSN})
	give(s, r, again[0])
	give(s, r, again[1])
	require.True(t, s.Done())
	require.Zero(t, s.Counts().Timeouts)
	require.EqualValues(t, 3, s.Counts().Repeated)
	require.Equal(t, units.Never, s.Next())
}

// A probe carries what is new, whatever the window says; no other follows before all that was sent until then has been
// acknowledged, and the timeout runs from the last progress.
func TestProbeOfNewData(t *testing.T) {
	s, r := ends(t, Config{Window: 2000}, 8)
	first := send(s, 0)
	require.Len(t, first, 2)
	now := first[1].Sent.Add(144 * us)
	require.Equal(t, now, s.Next())
	s.OnTimer(now)
	probe := send(s, now)
	require.Len(t, probe, 1)
	require.EqualValues(t, 2, probe[0].PSN)
	require.Equal(t, units.Instant(defaultRTO), s.Next())
	now = now.Add(us)
	for _, p := range first {
		a := answer(r, p)
		a.Sent = now.Add(-72 * us) // as if it had been sent later: this is not about round trips
		s.OnPacket(now, &a)
	}
	require.Len(t, send(s, now), 1)
	require.Equal(t, now.Add(defaultRTO), s.Next(), "the probe is out")
	now = give(s, r, probe[0])
	require.Equal(t, now.Add(144*us), s.Next())
}

// A repeat does as well as a probe that is due, and none is sent then.
func TestRepeatInsteadOfProbe(t *testing.T) {
	s, r := ends(t, Config{Reorder: us}, 10)
	first := send(s, 0)
	now := s.Next()
	s.OnTimer(now)
	a := answer(r, first[9])
	s.OnPacket(now+1, &a) // after 144 µs: the nine before are lost
	require.Equal(t, units.Instant(defaultRTO), s.Next(), "what is lost needs no probe")
	again := send(s, now+1)
	require.Len(t, again, 9)
	for i, p := range again {
		require.EqualValues(t, i, p.PSN)
	}
}

// Which timer runs: none while nothing is under way, that of the probe by smoothed round trips, and that of the reordering window alone
// where something may be lost.
func TestTimers(t *testing.T) {
	s, r := ends(t, Config{Window: 2000}, 1000)
	first := send(s, 0)
	give(s, r, first[0])
	a := answer(r, first[1])
	now := first[1].Sent.Add(152 * us)
	s.OnPacket(now, &a)
	require.Equal(t, units.Never, s.Next())
	send(s, now)
	require.Equal(t, now.Add(8*us).Add(2*(72+10)*us), s.Next(), "an eighth of the difference")

	s, r = ends(t, Config{Reorder: units.Millisecond}, 1000)
	first = send(s, 0)
	give(s, r, first[2])
	require.Equal(t, units.Instant(0).Add(72*us+units.Millisecond), s.Next())
}

// What has arrived behind a gap lets the sender go on for as many windows as Span says.
func TestSpan(t *testing.T) {
	for _, spans := range []int{0, 1, 8} {
		s, r := ends(t, Config{Span: spans}, 1000)
		queue, sent := send(s, 0), uint32(0)
		require.Len(t, queue, 10)
		for len(queue) > 0 && sent < 200 { // 0 is lost, and nothing is found lost before two round trips
			p := queue[0]
			queue = queue[1:]
			if sent = max(sent, p.PSN+1); p.PSN > 0 {
				a := answer(r, p)
				s.OnPacket(p.Sent, &a)
				queue = append(queue, send(s, p.Sent)...)
			}
		}
		require.EqualValues(t, map[int]int{0: 30, 1: 10, 8: 80}[spans], sent)
	}
}

// Nothing comes back at all: the timeout takes everything for lost.
func TestTimeout(t *testing.T) {
	s, _ := ends(t, Config{}, 10)
	send(s, 0)
	now := s.Next()
	s.OnTimer(now)
	require.Len(t, send(s, now), 1, "a probe")
	require.Equal(t, units.Instant(defaultRTO), s.Next())
	s.OnTimer(s.Next())
	again := send(s, units.Instant(defaultRTO))
	require.Len(t, again, 10)
	require.EqualValues(t, 1, s.Counts().Timeouts)
	require.Equal(t, again[9].Sent.Add(144*us), s.Next(), "probes begin anew")
}

// Whatever the channel does to packets of both directions, the message arrives and both ends know; what a sender counts of its packets
// is what their states say.
func TestBadChannel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 8))
		c := Config{Window: units.Bytes(r.IntN(30_000)), RTO: units.Duration(r.IntN(2)) * 30 * us, Reorder: units.Duration(r.IntN(2)) * us}
		n := 1 + r.IntN(150)
		s, rcv := ends(t, c, n)
		loss := r.Float64() * 0.3
		channel := channeltest.Channel{Rand: r, Loss: loss, Size: units.Bytes(n)*1000 - 1, Step: func(n int) {
			if n%8 == 0 {
				checkCounts(t, s, seed)
			}
		}}
		channel.Carry(t, seed, s, rcv, n)
	}
}

func checkCounts(t *testing.T, s *sender, seed uint64) {
	acked, lost := uint32(0), uint32(0)
	for psn := s.una; psn < s.next; psn++ {
		if s.acked.Has(psn) {
			acked++
		}
		if s.lost.Has(psn) {
			lost++
			require.False(t, s.acked.Has(psn), "seed %d", seed)
		}
	}
	require.Equal(t, [2]uint32{acked, lost}, [2]uint32{s.ackedN, s.lostN}, "seed %d", seed)
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{Window: -1}, {Span: -1}, {Span: 1001}, {Reorder: -1}, {RTO: 61 * units.Second}} {
		require.Error(t, c.Validate(), "%+v", c)
	}
}

func TestNoAllocation(t *testing.T) {
	s, r := ends(t, Config{}, 1<<20)
	var p transport.Packet
	var out transport.Replies
	now, n := units.Instant(0), 0
	step := func() {
		now = now.Add(8 * us)
		if s.Next() <= now {
			s.OnTimer(now)
		}
		if n++; s.Transmit(now, &p) && n%16 != 0 { // one of 16 is lost
			out.Reset()
			r.OnPacket(now, &p, &out)
			s.OnPacket(now.Add(us), out.At(0))
		}
	}
	for range 100_000 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(1000, step))
}
