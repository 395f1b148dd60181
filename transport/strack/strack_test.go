// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	us  = units.Microsecond
	mtu = 4096
)

// message is one of n packets at 400 Gbit/s and 8 µs: a product of 97.7 packets.
func message(n int) transport.Message {
	return transport.Message{Size: units.Bytes(n)*mtu - 1, MTU: mtu, LineRate: 400 * units.Gbit, BaseRTT: 8 * us, Hops: 4}
}

func ends(t testing.TB, c Config, n int) (*Sender, *Receiver) {
	t.Helper()
	f, err := c.Factory()
	require.NoError(t, err)
	s, r := f(message(n))
	return s.(*Sender), r.(*Receiver)
}

// windowOf is a controller that never changes.
func windowOf(packets int) congestion.Factory {
	return func(congestion.Path) congestion.Controller {
		return congestion.Fixed{Window: units.Bytes(packets) * mtu}
	}
}

// sendAll takes what the sender gives at an instant.
func sendAll(s *Sender, now units.Instant) (psns []uint32, all []transport.Packet) {
	var p transport.Packet
	for s.Transmit(now, &p) {
		psns, all = append(psns, p.PSN), append(all, p)
	}
	return psns, all
}

func give(r *Receiver, p transport.Packet) []transport.Packet {
	var out transport.Replies
	r.OnPacket(0, &p, &out)
	var got []transport.Packet
	for i := range out.Len() {
		x := *out.At(i)
		sel := *x.Sack
		x.Sack = &sel
		got = append(got, x)
	}
	return got
}

func data(psn uint32) transport.Packet {
	return transport.Packet{Kind: transport.Data, PSN: psn, Payload: mtu, Entropy: uint16(psn)}
}

// Section 3.3.1: 16 KiB, a closed gap, a duplicate, the end.
func TestWhenAcknowledgementsAreSent(t *testing.T) {
	_, r := ends(t, Config{}, 20)
	var answered []uint32
	for _, psn := range []uint32{0, 1, 2, 3, 4, 6, 7, 5, 8, 8, 9, 10, 12, 11, 13, 14, 15, 16, 17, 19, 18} {
		p := data(psn)
		if psn == 19 {
			p.Payload = mtu - 1
		}
		if len(give(r, p)) > 0 {
			answered = append(answered, psn)
		}
	}
	require.Equal(t, []uint32{3, 5, 8, 11, 16, 18}, answered,
		"four packets; 5 closes a gap; the second 8; 11 closes a gap; four packets; 18 closes a gap and is the last")
	require.True(t, r.Complete())
	require.Equal(t, units.Bytes(20*mtu-1), r.got.Bytes)
}

// Half a product is acknowledged at once where that is less than 16 KiB, and always a packet.
func TestAcknowledgementsOfSmallWindows(t *testing.T) {
	for _, c := range []struct {
		rate     units.Rate
		ack      units.Bytes
		answered []uint32
	}{
		{units.Gbit, 0, []uint32{0, 1, 2, 3, 4, 5, 6, 7}}, // a quarter of a packet
		{18 * units.Gbit, 0, []uint32{1, 3, 5, 7}},        // 4.4 packets
		{31 * units.Gbit, 0, []uint32{2, 5, 7}},           // 7.6; the last is answered anyway
		{33 * units.Gbit, 0, []uint32{3, 7}},              // 8.06
		{units.Gbit, 16 * units.KiB, []uint32{3, 7}},      // what is asked for
		{400 * units.Gbit, 0, []uint32{3, 7}},             // 97.7
	} {
		f, err := (&Config{AckBytes: c.ack}).Factory()
		require.NoError(t, err)
		m := message(8)
		m.LineRate = c.rate
		_, r := f(m)
		var answered []uint32
		for psn := range uint32(8) {
			p := data(psn)
			if psn == 7 {
				p.Payload = mtu - 1
			}
			if len(give(r.(*Receiver), p)) > 0 {
				answered = append(answered, psn)
			}
		}
		require.Equal(t, c.answered, answered, "%v, an acknowledgement after %v", c.rate, c.ack)
	}
}

// The timeout follows round trips through queues up, and back, but not where a driver sets it.
func TestTimeoutFollowsRoundTrips(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(1)}, 20)
	expected := 0
	after := func(rtt units.Duration) units.Duration {
		sendAll(s, 0)
		expected++
		_, a := sack(0, uint32(expected), 0, 0, 0, expected)
		a.Sent = -units.Instant(rtt)
		s.OnPacket(0, a)
		sendAll(s, 0)
		require.Zero(t, s.Violations())
		return s.rtoAt.Sub(0)
	}
	require.Equal(t, 200*us, after(8*us))
	require.Equal(t, 600*us, after(300*us))
	require.Equal(t, 200*us, after(50*us))
	s.SetTimeout(30 * us)
	require.Equal(t, 30*us, after(300*us))
}

// Prompt receivers answer each marked packet, or each in order, at once.
func TestPrompt(t *testing.T) {
	for prompt, want := range map[Prompt][]uint32{PromptGaps: {3, 5, 8}, PromptMarked: {1, 6, 5, 7, 8}, PromptExpected: {0, 1, 2, 3, 4, 5, 7, 8}} {
		_, r := ends(t, Config{Prompt: prompt}, 9)
		var answered []uint32
		for _, psn := range []uint32{0, 1, 2, 3, 4, 6, 5, 7, 8} {
			p := data(psn)
			if psn == 1 || psn == 7 {
				p.Flags = transport.CE
			}
			if psn == 8 {
				p.Payload = mtu - 1
			}
			if len(give(r, p)) > 0 {
				answered = append(answered, psn)
			}
		}
		require.Equal(t, want, answered, "prompt %d", prompt)
		require.True(t, r.Complete())
	}
	_, err := (&Config{Prompt: 3}).Factory()
	require.ErrorContains(t, err, "prompt 3")
}

func TestWhatAnAcknowledgementSays(t *testing.T) {
	_, r := ends(t, Config{}, 300)
	for _, psn := range []uint32{0, 1, 70, 71} {
		a := give(r, data(psn))
		if psn != 71 {
			require.Empty(t, a)
			continue
		}
		require.Len(t, a, 1)
		require.Equal(t, transport.Packet{Kind: transport.Sack, PSN: 71, Expected: 2, Entropy: 71, Sack: a[0].Sack}, a[0])
		require.Equal(t, transport.Selective{Base: 0, Bitmap: 0, Beyond: 2, Received: 4 * mtu}, *a[0].Sack, "the segment of the expected packet")
	}
	var last transport.Packet
	for _, psn := range []uint32{130, 131, 190, 72} {
		for _, a := range give(r, data(psn)) {
			last = a
		}
	}
	require.Equal(t, transport.Selective{Base: 64, Bitmap: 7 << 6, Beyond: 6, Received: 8 * mtu}, *last.Sack, "the lowest since the last one")
	ce := data(2)
	ce.Flags = transport.CE
	a := give(r, ce)
	require.Len(t, a, 1, "closes a gap, of one packet")
	require.Equal(t, transport.Echo, a[0].Flags&transport.Echo)
	probe := give(r, transport.Packet{Kind: transport.Probe, PSN: 3, Entropy: 9, Sent: 77})
	require.Len(t, probe, 1)
	require.True(t, probe[0].Sack.Probe)
	require.Equal(t, units.Instant(77), probe[0].Sent)
	beyond := r.Expected()
	for r.got.Spans(beyond) {
		beyond++
	}
	require.Empty(t, give(r, data(beyond)), "beyond what it keeps track of")
	require.Empty(t, give(r, transport.Packet{Kind: transport.Data, PSN: 5, Flags: transport.Trimmed}))

	_, r = ends(t, Config{Span: 64}, 300)
	require.Empty(t, give(r, data(128)))
	require.Zero(t, r.got.Bytes, "not in the place of one that is kept track of")
}

func sack(now units.Instant, expected, base uint32, bitmap uint64, beyond, received int) (units.Instant, *transport.Packet) {
	return now, &transport.Packet{
		Kind: transport.Sack, Sent: now - units.Instant(8*us), Expected: expected,
		Sack: &transport.Selective{Base: base, Bitmap: bitmap, Beyond: uint32(beyond), Received: units.Bytes(received) * mtu},
	}
}

// Section 3.3.2: more packets beyond the expected one than the window has, at least six, prove a loss. What is missing up
// to the highest is repeated once, before new packets.
func TestLossByPacketsBeyond(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(16)}, 1000)
	psns, _ := sendAll(s, 0)
	require.Len(t, psns, 16)
	s.OnPacket(sack(units.Instant(9*us), 2, 0, 0b1111_0100_0000_0000_0000>>4, 5, 7)) // 8, 10 to 13… as bits
	psns, _ = sendAll(s, units.Instant(9*us))
	require.Equal(t, []uint32{16, 17, 18, 19, 20, 21, 22}, psns, "7 received: 7 new ones, since 5 beyond prove nothing at a window of 16")
	require.Zero(t, s.claimed)

	bits := uint64(0b11_1111_1111_1111_1100_1000) // 3, 6 to 21
	s.OnPacket(sack(units.Instant(18*us), 2, 0, bits, 17, 19))
	require.Equal(t, uint32(22), s.recoverEnd)
	// 23 sent, 19 received: of the 4 missing ones 2, 4 and 5 are lost and 22 is still under way.
	require.Equal(t, units.Bytes(3*mtu), s.claimed)
	psns, all := sendAll(s, units.Instant(18*us))
	require.Equal(t, []uint32{2, 4, 5}, psns[:3])
	require.Equal(t, transport.Repeat, all[0].Flags&transport.Repeat)
	require.Equal(t, uint32(23), psns[3])
	require.Len(t, psns, 15, "22 and 15 more are a window of 16")
	// The same again proves nothing new: they are under way once more.
	s.OnPacket(sack(units.Instant(19*us), 2, 0, bits, 17, 19))
	psns, _ = sendAll(s, units.Instant(19*us))
	require.Empty(t, psns)
	s.OnPacket(sack(units.Instant(26*us), 22, 0, 0, 0, 22))
	require.GreaterOrEqual(t, s.una, s.recoverEnd, "recovery is over")
}

func TestThresholdIsAtLeastFive(t *testing.T) {
	for _, c := range []struct {
		beyond  int
		recover bool
	}{{5, false}, {6, true}} {
		s, _ := ends(t, Config{Congestion: windowOf(20)}, 1000)
		sendAll(s, 0)
		s.cc = congestion.Fixed{Window: 2 * mtu} // a cut since
		s.OnPacket(sack(units.Instant(9*us), 0, 0, (1<<c.beyond-1)<<1, c.beyond, c.beyond))
		require.Equal(t, c.recover, s.recoverEnd > 0, "%+v", c)
	}
}

// A probe goes three base round trips after the last acknowledgement. Its answer proves a loss when it
// was quick, nothing else came since, and nothing was achieved.
func TestProbe(t *testing.T) {
	probed := func(t *testing.T) *Sender {
		s, _ := ends(t, Config{Congestion: windowOf(8)}, 100)
		sendAll(s, 0)
		require.Equal(t, units.Instant(24*us), s.Next())
		s.OnTimer(units.Instant(24 * us))
		_, all := sendAll(s, units.Instant(24*us))
		require.Len(t, all, 1)
		require.Equal(t, transport.Probe, all[0].Kind)
		require.Zero(t, all[0].PSN, "asks for the expected packet")
		require.Zero(t, all[0].Payload)
		require.Equal(t, units.Instant(48*us), s.Next(), "once more")
		return s
	}
	answer := func(s *Sender, rtt units.Duration) {
		now := units.Instant(24 * us).Add(rtt)
		_, p := sack(now, 0, 0, 0, 0, 0)
		p.Sent, p.Sack.Probe = units.Instant(24*us), true
		s.OnPacket(now, p)
	}
	s := probed(t)
	answer(s, 8*us)
	require.Equal(t, uint32(8), s.recoverEnd)
	psns, _ := sendAll(s, units.Instant(33*us))
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, psns)

	s = probed(t)
	answer(s, 24*us)
	require.Zero(t, s.recoverEnd, "a queue of two round trips may hold them still")

	s = probed(t)
	s.OnPacket(sack(units.Instant(26*us), 0, 0, 0, 0, 0)) // of a duplicate: nothing is achieved
	answer(s, 8*us)
	require.Zero(t, s.recoverEnd, "an acknowledgement has come since")

	s = probed(t)
	s.cc = congestion.Fixed{Window: 10 * mtu}
	sendAll(s, units.Instant(25*us))
	answer(s, 8*us)
	require.Equal(t, uint32(8), s.recoverEnd, "8 and 9 were sent after the probe")

	// What came within a base round trip and a target delay, 16 µs, was achieved.
	s, _ = ends(t, Config{Congestion: windowOf(8)}, 100)
	sendAll(s, 0)
	s.OnPacket(sack(units.Instant(9*us), 1, 0, 0, 0, 1))
	s.OnPacket(sack(units.Instant(18*us), 1, 0, 0, 0, 1))
	at := units.Instant(42 * us)
	require.Equal(t, at, s.Next(), "three base round trips from the last acknowledgement")
	s.OnTimer(at)
	_, all := sendAll(s, at)
	require.Equal(t, transport.Probe, all[0].Kind)
	now, p := sack(at+units.Instant(8*us), 1, 0, 0, 0, 1)
	p.Sack.Probe = true
	s.OnPacket(now, p)
	require.Zero(t, s.recoverEnd)

	// A mark on a probe counts; without one its path isn't the one to use again, of which data have to tell.
	path := func(probe bool) uint16 {
		s, _ := ends(t, Config{Congestion: windowOf(8)}, 100)
		sendAll(s, 0)
		now, p := sack(units.Instant(9*us), 1, 0, 0, 0, 1)
		p.Entropy, p.Sack.Probe = 77, probe
		s.OnPacket(now, p)
		_, all := sendAll(s, now)
		return all[0].Entropy
	}
	require.EqualValues(t, 77, path(false))
	require.EqualValues(t, 8, path(true), "the next in turn")
}

func TestTimeout(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(4)}, 100)
	sendAll(s, 0)
	for s.Next() < units.Instant(200*us) {
		s.OnTimer(s.Next())
		sendAll(s, s.Next()) // probes, all lost
	}
	s.OnTimer(units.Instant(200 * us))
	psns, all := sendAll(s, units.Instant(200*us))
	require.Equal(t, []uint32{0, 1, 2, 3}, psns[len(psns)-4:])
	require.NotZero(t, all[len(all)-1].Flags&transport.Repeat)

	s, _ = ends(t, Config{Congestion: windowOf(4)}, 100)
	sendAll(s, 0)
	s.OnPacket(sack(units.Instant(50*us), 1, 0, 0, 0, 1))
	s.OnPacket(sack(units.Instant(90*us), 1, 0, 0b10, 1, 2))
	for s.Next() < units.Instant(250*us) {
		s.OnTimer(s.Next())
		sendAll(s, s.Next())
		require.Zero(t, s.Timeouts(), "the expected packet has changed at 50 µs, and not since")
	}
	s.OnTimer(units.Instant(250 * us))
	require.EqualValues(t, 1, s.Timeouts())

	s, _ = ends(t, Config{BaseRTT: units.Millisecond}, 100)
	sendAll(s, 0)
	require.Equal(t, units.Instant(2*units.Millisecond), s.Next(), "the default is no shorter than what answers take")
}

// The repeat of a packet that had arrived isn't counted by the receiver. When all has arrived nothing is in flight nevertheless; else a
// window of a packet or two would be full for ever.
func TestRepeatOfWhatHadArrived(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(2)}, 100)
	sendAll(s, 0)
	s.OnPacket(sack(units.Instant(9*us), 0, 64, 0, 1, 1)) // one of both, by the segment behind them
	s.Lost(units.Instant(9*us), []uint32{0, 1})
	again, _ := sendAll(s, units.Instant(9*us))
	require.Equal(t, []uint32{0, 1}, again)
	s.OnPacket(sack(units.Instant(18*us), 2, 0, 0, 0, 2))
	require.Zero(t, s.Inflight())
	psns, _ := sendAll(s, units.Instant(18*us))
	require.Equal(t, []uint32{2, 3}, psns)
}

// What no honest receiver says is counted, and changes nothing.
func TestImpossibleAcknowledgements(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(10), Paths: 16}, 100)
	sendAll(s, 0)
	before := *s
	for i, spoil := range []func(p *transport.Packet){
		func(p *transport.Packet) { p.Sack = nil },
		func(p *transport.Packet) { p.Expected = 11 },
		func(p *transport.Packet) { p.Entropy = 16 },
		func(p *transport.Packet) { p.Sack.Received = 10*mtu + 1 },
		func(p *transport.Packet) { p.Sack.Received = -1 },
		func(p *transport.Packet) { p.Sack.Received = mtu - 1 },
		func(p *transport.Packet) { p.Sack.Beyond = 1 << 30 },
		func(p *transport.Packet) { p.Sack.Beyond = 10 },
		func(p *transport.Packet) { p.Sack.Bitmap = 1 << 10 },
		func(p *transport.Packet) { p.Sack.Base = 1 },
		func(p *transport.Packet) { p.Sack.Base, p.Sack.Bitmap = 1<<31, 1 },
		func(p *transport.Packet) { p.Sack.Base = 0xffffffc0 },
	} {
		now, p := sack(units.Instant(9*us), 1, 0, 0, 0, 1)
		spoil(p)
		s.OnPacket(now, p)
		require.EqualValues(t, i+1, s.Violations())
		before.violations = s.violations
		require.Equal(t, before, *s, "case %d", i)
	}
}

// An event of the channel below.
type event struct {
	at   units.Instant
	back bool
	p    transport.Packet
	sel  transport.Selective
}

// Any loss, order and duplication ends with the whole message, within bounds, in a time that the RTO
// and the number of losses explain. The last seeds have connections, with messages that are posted while others are under way or when all
// have arrived.
func TestAnyChannel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		n := 1 + r.IntN(400)
		loss, spread := []float64{0, 0.01, 0.3}[r.IntN(3)], units.Duration(r.Int64N(int64(20*us)))
		c := Config{Oblivious: r.IntN(2) == 0, Paths: 1 + r.IntN(256)}
		s, rcv := ends(t, c, n)
		size, more := message(n).Size, 0
		if seed >= 300 {
			s, rcv = open(t, c)
			size, more = 0, n
		}
		var queue []event
		now, free := units.Instant(0), units.Instant(0)
		put := func(e event) {
			if r.Float64() < loss {
				return
			}
			e.at = now.Add(4*us + units.Duration(r.Int64N(int64(spread)+1)))
			queue = append(queue, e)
			if r.IntN(50) == 0 {
				e.at += units.Instant(r.Int64N(int64(30 * us)))
				queue = append(queue, e)
			}
		}
		steps := 0
		for ; !s.Done() || more > 0; steps++ {
			require.Less(t, steps, 2_000_000, "seed %d", seed)
			if more > 0 && (s.Done() || r.IntN(100) == 0) {
				k := 1 + r.IntN(more)
				more -= k
				size += message(k).Size
				require.EqualValues(t, n-more, s.Post(message(k).Size))
			}
			var p transport.Packet
			if now >= free && s.Transmit(now, &p) {
				put(event{p: p})
				free = now.Add(83)
			}
			require.GreaterOrEqual(t, s.Inflight(), units.Bytes(0), "seed %d", seed)
			require.GreaterOrEqual(t, s.claimed, units.Bytes(0), "seed %d", seed)
			require.LessOrEqual(t, s.next-s.una, s.span, "seed %d", seed)
			next := s.Next()
			if free > now {
				next = min(next, free)
			}
			first := -1
			for i := range queue {
				if queue[i].at < next {
					first, next = i, queue[i].at
				}
			}
			now = max(now, next)
			if first < 0 {
				if s.Next() <= now {
					s.OnTimer(now)
					require.Greater(t, s.Next(), now, "seed %d", seed)
				}
				continue
			}
			e := queue[first]
			queue = slices.Delete(queue, first, first+1)
			if e.back {
				e.p.Sack = &e.sel
				s.OnPacket(now, &e.p)
				continue
			}
			var out transport.Replies
			rcv.OnPacket(now, &e.p, &out)
			for i := range out.Len() {
				put(event{back: true, p: *out.At(i), sel: *out.At(i).Sack})
			}
		}
		require.EqualValues(t, n, rcv.Taken(), "seed %d", seed)
		require.Equal(t, seed < 300, rcv.Complete(), "seed %d", seed)
		require.Zero(t, s.Violations(), "seed %d", seed)
		require.Equal(t, size, rcv.got.Bytes, "seed %d", seed)
		require.Equal(t, units.Never, s.Next())
		if loss == 0 {
			// Delays that look like queues shrink the window to a packet, which then waits for a probe.
			require.Less(t, now, units.Instant(100*us+60*us*units.Duration(n)), "seed %d", seed)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	s, r := ends(t, Config{}, 1<<20)
	var out transport.Replies
	now := units.Instant(0)
	step := func() {
		var p transport.Packet
		for range 8 {
			now += 83
			if !s.Transmit(now, &p) {
				break
			}
			out.Reset()
			r.OnPacket(now, &p, &out)
			for i := range out.Len() {
				s.OnPacket(now+units.Instant(8*us), out.At(i))
			}
		}
	}
	require.Zero(t, testing.AllocsPerRun(2000, step))
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Paths: -1}, {Paths: 257}, {AckBytes: -1}, {RTO: -1}, {BaseRTT: 2 * units.Second}} {
		_, err := c.Factory()
		require.Error(t, err, "%+v", c)
	}
}

// Whatever acknowledgements say, plausible or not, the sender keeps within its span and its window, and its
// accounts don't go below zero.
func TestHostileAcknowledgements(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		const window = 50
		n := 200 + r.IntN(3000)
		s, _ := ends(t, Config{Congestion: windowOf(window), Paths: 64}, n)
		now, counted := units.Instant(0), uint64(0)
		for range 400 {
			before := s.Inflight()
			psns, _ := sendAll(s, now)
			require.LessOrEqual(t, s.Inflight(), max(before, window*mtu), "seed %d", seed)
			for _, psn := range psns {
				require.Less(t, psn, s.una+s.span, "seed %d", seed)
				require.Less(t, psn, s.total, "seed %d", seed)
			}
			now += units.Instant(r.Int64N(int64(40 * us)))
			if s.Next() <= now {
				s.OnTimer(now)
			}
			p := transport.Packet{
				Kind: transport.Sack, Sent: units.Instant(r.Int64N(int64(now) + 1)), Entropy: uint16(r.IntN(70)),
				Expected: uint32(int64(s.una) + r.Int64N(80) - 20), Flags: transport.Flags(r.UintN(256)),
				Sack: &transport.Selective{
					Base: uint32(int64(s.una)+r.Int64N(300)-100) &^ 63, Bitmap: r.Uint64() >> r.UintN(64), Beyond: uint32(r.IntN(2000)),
					Received: s.received + units.Bytes(r.Int64N(100*mtu)-20*mtu), Probe: r.IntN(5) == 0,
				},
			}
			if r.IntN(20) == 0 {
				p.Sack.Base, p.Sack.Received, p.Expected = r.Uint32(), units.Bytes(r.Uint64()), r.Uint32()
			}
			una, violations := s.una, s.violations
			s.OnPacket(now, &p)
			if s.violations > violations {
				require.Equal(t, una, s.una)
				counted++
			}
			require.GreaterOrEqual(t, s.Inflight(), units.Bytes(0), "seed %d", seed)
			require.GreaterOrEqual(t, s.claimed, units.Bytes(0), "seed %d", seed)
			require.LessOrEqual(t, s.una, s.next, "seed %d", seed)
			require.LessOrEqual(t, s.highest, s.next, "seed %d", seed)
			require.LessOrEqual(t, s.next-s.una, s.span, "seed %d", seed)
		}
		require.NotZero(t, counted, "seed %d: no violation", seed)
	}
}
