// SPDX-License-Identifier: Apache-2.0

package uet

import (
	"math/rand/v2"
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

func message(n int) transport.Message {
	return transport.Message{Size: units.Bytes(n)*mtu - 1, MTU: mtu, LineRate: 400 * units.Gbit, BaseRTT: 8 * us, Hops: 4}
}

func ends(t testing.TB, c Config, n int) (*sender, *receiver) {
	t.Helper()
	f, err := c.Factory()
	require.NoError(t, err)
	s, r := f(message(n))
	return s.(*sender), r.(*receiver)
}

func windowOf(packets int) congestion.Factory {
	return func(congestion.Path) congestion.Controller {
		return congestion.Fixed{Window: units.Bytes(packets) * mtu}
	}
}

func sendAll(s *sender, now units.Instant) (all []transport.Packet) {
	var p transport.Packet
	for s.Transmit(now, &p) {
		all = append(all, p)
	}
	return all
}

func give(r *receiver, p transport.Packet) (got []transport.Packet) {
	var out transport.Replies
	r.OnPacket(0, &p, &out)
	for i := range out.Len() {
		x := *out.At(i)
		if x.Sack != nil {
			sel := *x.Sack
			x.Sack = &sel
		}
		got = append(got, x)
	}
	return got
}

func data(psn uint32) transport.Packet {
	return transport.Packet{Kind: transport.Data, PSN: psn, Payload: mtu, Entropy: uint16(psn)}
}

// The first packet, each 16 KiB, a mark, one that asks and then all before it, a duplicate, the end.
func TestWhenAcknowledgementsAreSent(t *testing.T) {
	_, r := ends(t, Config{}, 24)
	asking, marked, last := data(8), data(13), data(23)
	asking.Expected, marked.Flags, last.Payload = asks, transport.CE, mtu-1
	var answered []uint32
	for _, p := range []transport.Packet{
		data(0), data(1), data(2), data(3), data(4), data(6), asking, data(5), data(7), data(7),
		data(9), data(10), marked, data(11), data(12), data(14), data(15), data(16), data(17), data(18), data(19), data(20), data(21), data(22), last,
	} {
		for _, a := range give(r, p) {
			require.Equal(t, transport.Sack, a.Kind)
			answered = append(answered, p.PSN)
		}
	}
	require.Equal(t, []uint32{0, 4, 8, 7, 7, 13, 15, 19, 23}, answered)
	require.True(t, r.Complete())
}

// What can't be data of this message isn't answered, nor counted.
func TestNoData(t *testing.T) {
	_, r := ends(t, Config{}, 2000)
	last, beyond, probe := data(1999), data(2000), data(0)
	last.Payload, probe.Kind = mtu-1, transport.Probe
	for _, p := range []transport.Packet{last, beyond, probe, data(r.got.Expected + 640)} {
		require.Empty(t, give(r, p), "%+v", p)
	}
	require.Zero(t, r.got.Beyond)
	require.Len(t, give(r, data(0)), 1)
	// A packet of the segment before tells of what came out of order there.
	give(r, data(600))
	give(r, data(601))
	give(r, data(602))
	a := give(r, data(603))[0]
	require.EqualValues(t, (603-63)&^63, a.Sack.Base)
}

// A trimmed packet is reported and repeated at once, before new ones; a report of an earlier transmission changes
// nothing.
func TestTrimmed(t *testing.T) {
	s, r := ends(t, Config{Congestion: windowOf(4)}, 100)
	first := sendAll(s, 0)
	require.Len(t, first, 4)
	require.Equal(t, uint32(asks), first[3].Expected, "it fills the window")
	require.Zero(t, first[2].Expected)
	cut := first[1]
	cut.Flags |= transport.Trimmed
	nak := give(r, cut)
	require.Len(t, nak, 1)
	require.Equal(t, transport.Nak, nak[0].Kind)
	require.Equal(t, cut.PSN, nak[0].PSN)
	at := units.Instant(8 * us)
	s.OnPacket(at, &nak[0])
	again := sendAll(s, at)
	require.Len(t, again, 1)
	require.Equal(t, cut.PSN, again[0].PSN)
	require.Equal(t, transport.Repeat, again[0].Flags&transport.Repeat)
	require.Equal(t, uint32(asks), again[0].Expected)
	s.OnPacket(at+1, &nak[0])
	require.Empty(t, sendAll(s, at+1), "that was of the first transmission")
	require.Equal(t, uint32(1), s.Counts().Repeated)
	require.Empty(t, give(r, again[0])[0].Sack.Bitmap&1)
	require.Equal(t, transport.Sack, give(r, cut)[0].Kind, "it has come since: that is what the sender must know")
}

// What not even a header tells of is found after the timeout, counted from each packet's own transmission.
func TestTimeout(t *testing.T) {
	s, _ := ends(t, Config{Congestion: windowOf(2)}, 10)
	sendAll(s, 0)
	require.Equal(t, units.Instant(65*us), s.Next())
	s.OnTimer(units.Instant(65 * us))
	require.Equal(t, uint32(2), s.Counts().Timeouts)
	again := sendAll(s, units.Instant(66*us))
	require.Len(t, again, 2)
	require.Equal(t, units.Instant(131*us), s.Next())

	s, _ = ends(t, Config{BaseRTT: units.Millisecond}, 10)
	sendAll(s, 0)
	require.Equal(t, units.Instant(2*units.Millisecond), s.Next(), "the default is no shorter than what answers take")
}

// told notes what a controller and the paths hear.
type told struct {
	congestion.Fixed
	sent, cnps     int
	inflight       units.Bytes
	ack            congestion.Ack
	loss           []congestion.Loss
	fed, cut, gone []uint16
	marked         bool
}

func (c *told) OnSent(_ units.Instant, n, inflight units.Bytes) {
	c.sent += int(n)
	c.inflight = inflight
}
func (c *told) OnAck(_ units.Instant, a *congestion.Ack)  { c.ack = *a }
func (c *told) OnCNP(units.Instant)                       { c.cnps++ }
func (c *told) OnLoss(_ units.Instant, l congestion.Loss) { c.loss = append(c.loss, l) }
func (c *told) Choose(int) uint16                         { return uint16(len(c.fed)) }
func (c *told) Feedback(path uint16, ecn bool)            { c.fed, c.marked = append(c.fed, path), ecn }
func (c *told) Trimmed(path uint16)                       { c.cut = append(c.cut, path) }
func (c *told) Lost(path uint16)                          { c.gone = append(c.gone, path) }

// TestControllerAndPathsAreTold of all that acknowledgements, trimmed packets and the timer say; round trips are those of a packet's
// last transmission.
func TestControllerAndPathsAreTold(t *testing.T) {
	c := &told{Fixed: congestion.Fixed{Window: 4 * mtu}}
	s, r := ends(t, Config{Congestion: func(congestion.Path) congestion.Controller { return c }}, 8)
	s.paths = c
	first := sendAll(s, 10)
	require.Equal(t, 4*mtu, c.sent)
	require.EqualValues(t, 4*mtu, c.inflight)
	first[0].Flags |= transport.CE
	a := give(r, first[0])[0]
	s.OnPacket(110, &a)
	require.Equal(t, congestion.Ack{RTT: 100, Acked: mtu, Inflight: 3 * mtu, ECN: true}, c.ack)
	require.Equal(t, []uint16{0}, c.fed)
	require.True(t, c.marked)
	require.Len(t, sendAll(s, 120), 1)
	first[1].Flags |= transport.Trimmed | transport.CE
	nak := give(r, first[1])[0]
	require.NotZero(t, nak.Flags&transport.Echo)
	s.OnPacket(130, &nak)
	require.Equal(t, []congestion.Loss{{Bytes: mtu, Kind: congestion.LossTrim}}, c.loss)
	require.Equal(t, []uint16{0}, c.cut)
	again := sendAll(s, 140)
	require.Len(t, again, 1)
	give(r, first[2])
	a = give(r, first[3])[0] // it filled the window
	s.OnPacket(150, &a)
	require.Equal(t, congestion.Ack{RTT: 140, Acked: 2 * mtu, Inflight: 2 * mtu}, c.ack)
	require.False(t, c.marked)
	first[1].Flags = transport.ECT // it came after all, and is answered as the first transmission
	a = give(r, first[1])[0]
	if a.Kind == transport.Sack {
		s.OnPacket(160, &a)
	}
	s.OnPacket(170, &transport.Packet{Kind: transport.CNP})
	require.Equal(t, 1, c.cnps)
	sendAll(s, 180)
	due := s.Next()
	c.loss = nil
	s.OnTimer(due)
	require.NotEmpty(t, c.loss)
	require.Equal(t, congestion.Loss{Bytes: mtu, Kind: congestion.LossDetected}, c.loss[0], "others have been heard of since")
	require.Len(t, c.gone, len(c.loss))

	// When nothing is heard, that is one timeout, whatever was under way.
	for range 2 {
		sendAll(s, due)
		c.loss = nil
		due = due.Add(2 * 65 * us)
		s.OnTimer(due)
		timeouts := 0
		for _, l := range c.loss {
			if l.Kind == congestion.LossTimeout {
				timeouts++
			}
		}
		require.Greater(t, len(c.loss), 1)
		require.Equal(t, 1, timeouts)
	}
}

// A controller that sets a rate alone bounds nothing but the pace: all that both ends keep track of is sent. With a window one packet may
// always be under way.
func TestLimits(t *testing.T) {
	limit := func(f congestion.Fixed) *sender {
		s, _ := ends(t, Config{Congestion: func(congestion.Path) congestion.Controller { return f }}, 2000)
		return s
	}
	s := limit(congestion.Fixed{Rate: 25 * units.Gbit})
	require.Equal(t, 25*units.Gbit, s.Pace(0))
	sent := sendAll(s, 0)
	require.Len(t, sent, int(s.span))
	require.Zero(t, sent[len(sent)-1].Expected, "nothing has to be asked for")
	require.Len(t, sendAll(limit(congestion.Fixed{Window: 1}), 0), 1)
	require.Len(t, sendAll(limit(congestion.Fixed{Window: 2 * mtu}), 0), 2)
}

// Random networks: packets are late, trimmed, dropped, marked, acknowledgements are lost. Each message arrives whole, each
// packet's payload counts once, and what is in flight ends at nothing.
func TestRandomNetworks(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 1))
	for run := range 60 {
		n := 1 + r.IntN(600)
		s, rcv := ends(t, Config{Oblivious: r.IntN(2) == 0}, n)
		type flying struct {
			at units.Instant
			p  transport.Packet
		}
		var wire []flying
		drop, cut := r.Float64()*0.1, r.Float64()*0.3
		now := units.Instant(0)
		deliver := func(p transport.Packet) {
			wire = append(wire, flying{now.Add(4*us + units.Duration(r.IntN(20_000))), p})
		}
		for steps := 0; !s.Done(); steps++ {
			require.Less(t, steps, 200_000, "seed %d, run %d", seed, run)
			for _, p := range sendAll(s, now) {
				switch x := r.Float64(); {
				case x < drop:
					continue
				case x < drop+cut:
					p.Flags |= transport.Trimmed
				case x < drop+2*cut:
					p.Flags |= transport.CE
				}
				deliver(p)
			}
			next := s.Next()
			first := -1
			for i := range wire {
				if wire[i].at < next || first < 0 && wire[i].at <= next {
					next, first = wire[i].at, i
				}
			}
			require.NotEqual(t, units.Never, next, "seed %d, run %d: nothing more happens", seed, run)
			now = max(now, next)
			if first < 0 {
				s.OnTimer(now)
				continue
			}
			p := wire[first].p
			wire[first] = wire[len(wire)-1]
			wire = wire[:len(wire)-1]
			if p.Kind.ToSender() {
				s.OnPacket(now, &p)
				continue
			}
			for _, a := range give(rcv, p) {
				if r.Float64() >= drop {
					deliver(a)
				}
			}
		}
		require.True(t, rcv.Complete(), "seed %d, run %d", seed, run)
		require.Equal(t, units.Bytes(n)*mtu-1, rcv.got.Bytes, "seed %d, run %d", seed, run)
		require.Zero(t, s.flight)
		require.Zero(t, s.waiting)
		require.Zero(t, s.violations)
	}
}

// Acknowledgements that no receiver can have sent are counted and change nothing.
func TestHostile(t *testing.T) {
	for name, p := range map[string]transport.Packet{
		"none":             {Kind: transport.Sack},
		"beyond what was":  {Kind: transport.Sack, Expected: 5, Sack: &transport.Selective{Received: 5 * mtu}},
		"too many bytes":   {Kind: transport.Sack, Expected: 1, Sack: &transport.Selective{Received: 5 * mtu}},
		"too few bytes":    {Kind: transport.Sack, Expected: 2, Sack: &transport.Selective{Received: mtu}},
		"too many beyond":  {Kind: transport.Sack, Expected: 1, Sack: &transport.Selective{Received: mtu, Beyond: 4}},
		"a path that isnt": {Kind: transport.Sack, Expected: 1, Entropy: 128, Sack: &transport.Selective{Received: mtu}},
		"a bit beyond":     {Kind: transport.Sack, Expected: 1, Sack: &transport.Selective{Received: mtu, Bitmap: 1 << 4}},
		"an odd base":      {Kind: transport.Sack, Expected: 1, Sack: &transport.Selective{Received: mtu, Base: 3}},
		"a trim not sent":  {Kind: transport.Nak, PSN: 4},
		"a trim elsewhere": {Kind: transport.Nak, PSN: 1, Entropy: 500},
	} {
		s, _ := ends(t, Config{Congestion: windowOf(4)}, 100)
		sendAll(s, 0)
		s.OnPacket(1, &p)
		require.Equal(t, uint64(1), s.violations, name)
		require.Zero(t, s.una, name)
		require.Empty(t, sendAll(s, 2), name)
	}
}

func TestDoesNotAllocate(t *testing.T) {
	s, r := ends(t, Config{}, 1<<20)
	var p transport.Packet
	var out transport.Replies
	now, n := units.Instant(0), 0
	require.Zero(t, testing.AllocsPerRun(20_000, func() {
		now += 100
		if !s.Transmit(now, &p) {
			now = max(now, s.Next())
			s.OnTimer(now)
			return
		}
		if n++; n%50 == 0 {
			p.Flags |= transport.Trimmed
		}
		out.Reset()
		r.OnPacket(now, &p, &out)
		for i := range out.Len() {
			s.OnPacket(now+8000, out.At(i))
		}
		now += 8000
	}))
	require.Greater(t, n, 5000)
}

func TestRefuses(t *testing.T) {
	for _, c := range []Config{{Paths: 3}, {Paths: 512}, {Paths: -1}, {AckBytes: -1}, {RTO: -1}, {BaseRTT: 2 * units.Second}} {
		_, err := c.Factory()
		require.ErrorContains(t, err, "configure uet")
	}
}
