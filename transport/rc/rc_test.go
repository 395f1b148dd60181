// SPDX-License-Identifier: Apache-2.0

package rc

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/channeltest"
	"github.com/sdr-rdma/go-sdr/units"
)

// ends makes both ends of a message of n packets.
func ends(c Config, n int) (*sender, *receiver) {
	m := transport.Message{Size: units.Bytes(n) * 1000, MTU: 1000, LineRate: units.Gbit, BaseRTT: 80 * units.Microsecond}
	s, r := c.Factory()(m)
	return s.(*sender), r.(*receiver)
}

// send takes n packets from s.
func send(t *testing.T, s *sender, now units.Instant, n int) []transport.Packet {
	var out []transport.Packet
	for range n {
		var p transport.Packet
		require.True(t, s.Transmit(now, &p))
		out = append(out, p)
	}
	return out
}

func answers(r *receiver, now units.Instant, p transport.Packet) []transport.Packet {
	var out transport.Replies
	r.OnPacket(now, &p, &out)
	var all []transport.Packet
	for i := range out.Len() {
		all = append(all, *out.At(i))
	}
	return all
}

func psns(packets []transport.Packet) []uint32 {
	var out []uint32
	for _, p := range packets {
		out = append(out, p.PSN)
	}
	return out
}

// TestGBNOneNakForAGap: IBTA 9.7.5.2.8: one NAK, then silence until the missing packet is there.
func TestGBNOneNakForAGap(t *testing.T) {
	s, r := ends(Config{}, 10)
	p := send(t, s, 0, 5)
	require.Equal(t, transport.Ack, answers(r, 1, p[0])[0].Kind)
	nak := answers(r, 2, p[2])
	require.Len(t, nak, 1)
	require.Equal(t, transport.Nak, nak[0].Kind)
	require.EqualValues(t, 1, nak[0].Expected)
	require.Empty(t, answers(r, 3, p[3]))
	require.Empty(t, answers(r, 4, p[4]))

	s.OnPacket(5, &nak[0])
	again := send(t, s, 6, 3)
	require.Equal(t, []uint32{1, 2, 3}, psns(again))
	require.NotZero(t, again[0].Flags&transport.Repeat)
	require.EqualValues(t, 2, answers(r, 7, again[0])[0].Expected)
	// A duplicate is answered, so that a lost ACK does no harm.
	require.EqualValues(t, 2, answers(r, 8, p[0])[0].Expected)
	// The next gap has its own NAK. One that comes late, when more has been acknowledged, starts nothing again.
	second := answers(r, 9, again[2])
	require.Equal(t, transport.Nak, second[0].Kind)
	s.OnPacket(10, &second[0])
	require.Equal(t, []uint32{2, 3}, psns(send(t, s, 11, 2)))
	s.OnPacket(12, &nak[0])
	require.Equal(t, []uint32{4, 5}, psns(send(t, s, 13, 2)))
	// What was sent before going back may have arrived.
	s, _ = ends(Config{}, 10)
	send(t, s, 0, 5)
	s.OnTimer(s.Next())
	require.Equal(t, []uint32{0}, psns(send(t, s, 14, 1)))
	s.OnPacket(15, &transport.Packet{Kind: transport.Ack, Expected: 5})
	require.Equal(t, []uint32{5}, psns(send(t, s, 16, 1)))
}

func TestGBNNakIntervalAndDelay(t *testing.T) {
	s, r := ends(Config{NakInterval: 100, NakDelay: 50}, 10)
	p := send(t, s, 0, 4)
	nak := answers(r, 10, p[1])
	require.Len(t, nak, 1)
	require.Empty(t, answers(r, 109, p[2]))
	require.Len(t, answers(r, 110, p[3]), 1, "repeated after the interval")
	s.OnPacket(200, &nak[0])
	var x transport.Packet
	require.False(t, s.Transmit(249, &x))
	require.EqualValues(t, 250, s.Next())
	s.OnTimer(250)
	require.True(t, s.Transmit(250, &x))
	require.EqualValues(t, 0, x.PSN)
	require.Greater(t, s.Next(), units.Instant(250), "OnTimer moves the timer on")
}

// TestGBNRepeatedNaks: a packet that is asked for once more than retries is repeated after the timeout, and only then, whatever asks for it meanwhile;
// the next begins anew. When it turns out to have arrived what follows leaves at once.
func TestGBNRepeatedNaks(t *testing.T) {
	const rto = units.Instant(4 * units.Millisecond)
	s, _ := ends(Config{NakDelay: 10}, 100)
	send(t, s, 0, 20)
	now, x := units.Instant(0), transport.Packet{}
	nak := func(expected uint32) {
		now += 100
		s.OnPacket(now, &transport.Packet{Kind: transport.Nak, PSN: 19, Expected: expected})
	}
	for range 2 {
		for range retries {
			nak(5)
			require.Equal(t, now+10, s.Next())
			s.OnTimer(now + 10)
			require.Equal(t, []uint32{5, 6}, psns(send(t, s, now+10, 2)))
		}
		before := s.Counts().Timeouts
		nak(5)
		require.Equal(t, now+rto, s.Next())
		nak(5)
		s.OnTimer(now + 10)
		require.False(t, s.Transmit(now+10, &x))
		require.Equal(t, now-100+rto, s.Next())
		now = s.Next()
		s.OnTimer(now)
		require.Equal(t, []uint32{5, 6}, psns(send(t, s, now, 2)))
		require.Equal(t, before+1, s.Counts().Timeouts)
	}
	for range retries + 1 {
		nak(5)
	}
	s.OnPacket(now+1, &transport.Packet{Kind: transport.Ack, PSN: 6, Expected: 7})
	require.Equal(t, []uint32{7}, psns(send(t, s, now+1, 1)))
	nak(7)
	require.Equal(t, now+10, s.Next())
}

func TestAckEvery(t *testing.T) {
	s, r := ends(Config{AckEvery: 4}, 6)
	for i, p := range send(t, s, 0, 6) {
		require.Len(t, answers(r, 1, p), map[int]int{3: 1, 5: 1}[i], "packet %d", i)
	}
	require.True(t, r.Complete())

	// An answer tells of a mark on any packet that it is for, and the next one doesn't any more.
	s, r = ends(Config{AckEvery: 2, CNPPackets: true}, 6)
	for i, p := range send(t, s, 0, 6) {
		if i == 2 {
			p.Flags |= transport.CE
		}
		for _, a := range answers(r, 1, p) {
			require.Equal(t, a.Kind == transport.Ack && i == 3, a.Flags&transport.Echo != 0, "packet %d", i)
		}
	}

	// A closed gap is answered at once.
	s, r = ends(Config{Mode: IRN, AckEvery: 4, Window: 6000}, 6)
	p := send(t, s, 0, 2)
	require.Len(t, answers(r, 1, p[1]), 1)
	require.EqualValues(t, 2, answers(r, 1, p[0])[0].Expected)
}

// TestIRN: every packet out of order is answered with what is expected and what came; the sender
// repeats what is below, once, before it goes on; it leaves recovery when all that was sent at its
// beginning is acknowledged.
func TestIRN(t *testing.T) {
	s, r := ends(Config{Mode: IRN, Window: 8000}, 100)
	p := send(t, s, 0, 8)
	var x transport.Packet
	require.False(t, s.Transmit(0, &x), "the window is full")
	// 0 arrives, 1 and 3 are lost.
	for _, a := range answers(r, 1, p[0]) {
		s.OnPacket(1, &a)
	}
	for _, i := range []int{2, 4, 5} {
		nak := answers(r, 2, p[i])
		require.Len(t, nak, 1)
		require.Equal(t, transport.Nak, nak[0].Kind)
		require.EqualValues(t, 1, nak[0].Expected)
		require.EqualValues(t, i, nak[0].PSN)
		s.OnPacket(2, &nak[0])
	}
	require.EqualValues(t, 8, s.recoverEnd)
	again := send(t, s, 3, 3)
	require.Equal(t, []uint32{1, 3, 8}, psns(again), "what is lost, then what is new")
	nak := answers(r, 3, p[6])
	s.OnPacket(3, &nak[0])
	require.False(t, s.Transmit(3, &x), "one recovery repeats a packet once")
	// The repeated packets close the gap: the acknowledgement jumps.
	require.EqualValues(t, 3, answers(r, 4, again[0])[0].Expected)
	a := answers(r, 4, again[1])[0]
	require.EqualValues(t, 7, a.Expected)
	s.OnPacket(5, &a)
	require.EqualValues(t, 7, s.una)
	require.Zero(t, s.sacked)

	// What lies beyond what the receiver keeps track of isn't taken for what does.
	require.EqualValues(t, 64, r.have.Bits())
	require.Equal(t, transport.Ack, answers(r, 6, transport.Packet{Kind: transport.Data, PSN: 7 + 64 + 1})[0].Kind)
	require.EqualValues(t, 8, answers(r, 6, transport.Packet{Kind: transport.Data, PSN: 7})[0].Expected, "8 has not arrived")
}

// TestIRNExpectedInNak: a NAK that says of the expected packet that it has arrived is believed no more than one of a packet that has not been sent.
func TestIRNExpectedInNak(t *testing.T) {
	s, _ := ends(Config{Mode: IRN, Window: 8000}, 100)
	send(t, s, 0, 3)
	for _, psn := range []uint32{0, 3} {
		s.OnPacket(1, &transport.Packet{Kind: transport.Nak, PSN: psn})
		require.Zero(t, s.sacked)
	}
	s.OnTimer(s.Next())
	require.Equal(t, []uint32{0}, psns(send(t, s, 320_000, 1)), "it is repeated")
}

// TestIRNReorder: with a tolerance a gap is no loss until so many later packets have come.
func TestIRNReorder(t *testing.T) {
	s, r := ends(Config{Mode: IRN, Window: 20000, Reorder: 3}, 100)
	p := send(t, s, 0, 10)
	for i := 1; i <= 4; i++ {
		require.Zero(t, s.recoverEnd, "packet %d", i)
		nak := answers(r, 1, p[i])
		s.OnPacket(1, &nak[0])
	}
	require.EqualValues(t, 10, s.recoverEnd)
	require.Equal(t, []uint32{0, 10}, psns(send(t, s, 2, 2)))
}

// TestIRNTimeouts: the short one, here two base round trips, while few packets are in flight, the long one otherwise.
func TestIRNTimeouts(t *testing.T) {
	s, _ := ends(Config{Mode: IRN, Window: 8000}, 100)
	send(t, s, 0, 2)
	require.EqualValues(t, 160_000, s.Next())
	send(t, s, 50_000, 1)
	require.EqualValues(t, 370_000, s.Next())
	s.OnTimer(370_000)
	require.Equal(t, []uint32{0}, psns(send(t, s, 380_000, 1)))
	require.EqualValues(t, 690_000, s.Next(), "a repeat doesn't begin the third packet's time anew")
	require.Equal(t, []uint32{3}, psns(send(t, s, 390_000, 1)))
	require.EqualValues(t, 690_000, s.Next(), "nor does the fourth")
}

// TestNotifications: DCQCN's notification point answers at most one marked packet in an interval.
func TestNotifications(t *testing.T) {
	for _, packets := range []bool{true, false} {
		s, r := ends(Config{CNPInterval: 1000, CNPPackets: packets, AckEvery: 100}, 100)
		sent := send(t, s, 0, 4)
		got := 0
		for i, now := range []units.Instant{0, 999, 1000, 1500} {
			sent[i].Flags |= transport.CE
			for _, a := range answers(r, now, sent[i]) {
				if a.Kind == transport.CNP || a.Flags&transport.Notify != 0 {
					got++
				}
				require.Equal(t, packets, a.Kind == transport.CNP)
			}
		}
		require.Equal(t, 2, got)
	}
}

// TestGBNNotificationBehindAGap: what is behind a gap that has its NAK tells of marks in acknowledgements: a second NAK would have the sender
// begin again what is on its way.
func TestGBNNotificationBehindAGap(t *testing.T) {
	s, r := ends(Config{CNPInterval: 10}, 10)
	p := send(t, s, 0, 5)
	for i := range p {
		p[i].Flags |= transport.CE
	}
	require.Equal(t, transport.Nak, answers(r, 100, p[1])[0].Kind)
	require.Empty(t, answers(r, 105, p[2]))
	for _, a := range [][]transport.Packet{answers(r, 110, p[3]), answers(r, 120, p[4])} {
		require.Len(t, a, 1)
		require.Equal(t, transport.Ack, a[0].Kind)
		require.Equal(t, transport.Echo|transport.Notify, a[0].Flags)
		require.Zero(t, a[0].Expected)
		s.OnPacket(130, &a[0])
	}
	require.Equal(t, []uint32{5}, psns(send(t, s, 131, 1)))
}

// TestKeptMarks: a mark that comes while the interval of the last notification lasts is told once it is over, by a packet without one, and once only.
// Without KeepMarks it is forgotten.
func TestKeptMarks(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s, r := ends(Config{CNPInterval: 1000, CNPPackets: true, AckEvery: 100, KeepMarks: keep}, 100)
		sent := send(t, s, 0, 6)
		sent[0].Flags |= transport.CE
		sent[1].Flags |= transport.CE
		var told []units.Instant
		for i, now := range []units.Instant{0, 500, 999, 1000, 1500, 2500} {
			for _, a := range answers(r, now, sent[i]) {
				if a.Kind == transport.CNP {
					told = append(told, now)
				}
			}
		}
		if keep {
			require.Equal(t, []units.Instant{0, 1000}, told)
		} else {
			require.Equal(t, []units.Instant{0}, told)
		}
	}
}

// TestControllerIsTold drives one with everything that a transport can tell.
func TestControllerIsTold(t *testing.T) {
	told := &recorder{}
	config := Config{Congestion: func(congestion.Path) congestion.Controller { return told }}
	s, _ := ends(config, 100)
	send(t, s, 0, 3)
	s.OnPacket(70, &transport.Packet{Kind: transport.Ack, Expected: 2, Sent: 10, Flags: transport.Notify | transport.Echo})
	require.Equal(t, congestion.Ack{RTT: 60, Acked: 2000, Inflight: 1000, ECN: true}, told.ack)
	require.Equal(t, 3, told.sent)
	require.Equal(t, 1, told.cnps)
	require.Equal(t, units.Instant(70).Add(defaultRTO), s.Next(), "progress begins the timer anew")
	s.OnPacket(75, &transport.Packet{Kind: transport.CNP, Expected: 3})
	require.Equal(t, 2, told.cnps)
	require.EqualValues(t, 2, s.una, "a notification acknowledges nothing")
	told.cnps = 1
	s.OnPacket(80, &transport.Packet{Kind: transport.Nak, Expected: 2, PSN: 5})
	require.Equal(t, congestion.Loss{Bytes: 1000, Kind: congestion.LossNack}, told.loss)
	told.window = 1500
	send(t, s, 90, 1)
	var x transport.Packet
	require.False(t, s.Transmit(91, &x), "the window has room for one")
	told.window = 3000
	send(t, s, 92, 2)
	require.False(t, s.Transmit(93, &x), "and now for three")
	told.window = 10
	s.OnPacket(94, &transport.Packet{Kind: transport.Ack, Expected: 5})
	send(t, s, 95, 1)
	require.False(t, s.Transmit(96, &x), "one may always be under way")
	require.Equal(t, 1, told.cnps, "go-back-N's NAK is no notification")

	config.Mode = IRN
	told.cnps, told.window = 0, 0
	s, _ = ends(config, 100)
	send(t, s, 0, 3)
	s.OnPacket(70, &transport.Packet{Kind: transport.Ack, Expected: 1})
	require.Zero(t, told.cnps)
	s.OnPacket(80, &transport.Packet{Kind: transport.Nak, Expected: 1, PSN: 2})
	require.Equal(t, 1, told.cnps, "IRN's carries one")
}

type recorder struct {
	congestion.Fixed
	sent, cnps int
	ack        congestion.Ack
	loss       congestion.Loss
	window     units.Bytes
}

func (r *recorder) OnSent(units.Instant, units.Bytes, units.Bytes)             { r.sent++ }
func (r *recorder) OnAck(_ units.Instant, a *congestion.Ack)                   { r.ack = *a }
func (r *recorder) OnCNP(units.Instant)                                        { r.cnps++ }
func (r *recorder) OnLoss(_ units.Instant, l congestion.Loss)                  { r.loss = l }
func (r *recorder) Limits(units.Instant) (rate units.Rate, window units.Bytes) { return 0, r.window }

// TestBadChannel: whatever the channel does to packets of both directions, the message arrives and
// both ends know.
func TestBadChannel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 6))
		c := Config{Mode: Mode(r.IntN(2)), AckEvery: r.IntN(6), Window: units.Bytes(r.IntN(30_000)), Reorder: r.IntN(2) * 3, NakDelay: units.Duration(r.IntN(500))}
		n := 1 + r.IntN(300)
		s, rcv := ends(c, n)
		loss := r.Float64() * 0.3
		channel := channeltest.Channel{Rand: r, Loss: loss, Size: units.Bytes(n) * 1000}
		channel.Carry(t, seed, s, rcv, n)
	}
}

// Ends begin at a cache line: of these sizes the allocator has blocks that do.
func TestSizes(t *testing.T) {
	require.EqualValues(t, 256, unsafe.Sizeof(sender{}))
	require.EqualValues(t, 64, unsafe.Sizeof(receiver{}))
}

func TestValidate(t *testing.T) {
	require.NoError(t, (&Config{}).Validate())
	require.ErrorContains(t, (&Config{Mode: 9}).Validate(), "choose gbn, irn or timeout")
	require.ErrorContains(t, (&Config{RTO: -1}).Validate(), "RTO of -1 ns: must be between 0 and 60 s")
	require.ErrorContains(t, (&Config{Window: -1}).Validate(), "must not be negative")
}

// Timeout: packets in any order are taken and answered without a NAK; only the timer repeats, from the first that
// is missing on.
func TestTimeoutMode(t *testing.T) {
	s, r := ends(Config{Mode: Timeout, RTO: units.Millisecond}, 10)
	sent := send(t, s, 0, 10)
	var out transport.Replies
	for _, i := range []int{3, 1, 0, 2, 9, 8, 7, 6, 5} { // 4 is lost
		out.Reset()
		r.OnPacket(1, &sent[i], &out)
		for j := range out.Len() {
			require.Equal(t, transport.Ack, out.At(j).Kind)
			s.OnPacket(2, out.At(j))
		}
	}
	require.EqualValues(t, 4, s.una)
	var p transport.Packet
	require.False(t, s.Transmit(3, &p), "reordering repeats nothing")
	s.OnTimer(s.Next())
	require.Equal(t, transport.Counts{Timeouts: 1}, s.Counts())
	require.True(t, s.Transmit(s.Next(), &p))
	require.EqualValues(t, 4, p.PSN)
	out.Reset()
	r.OnPacket(4, &p, &out)
	require.True(t, r.Complete())
	s.OnPacket(5, out.At(0))
	require.True(t, s.Done())
	require.EqualValues(t, 1, s.Counts().Repeated)
}

// open makes both ends of a connection.
func open(c Config) (*sender, *receiver) {
	s, r := c.Factory()(transport.Message{Size: 1, MTU: 1000, LineRate: units.Gbit, BaseRTT: 80 * units.Microsecond, Open: true})
	return s.(*sender), r.(*receiver)
}

// Messages of a connection follow each other: packets are numbered on, each message ends with what is left of it and is answered then, and
// the controller, made once, hears of all.
func TestConnection(t *testing.T) {
	for _, mode := range []Mode{GBN, IRN, Timeout} {
		told, made := &recorder{}, 0
		s, r := open(Config{Mode: mode, AckEvery: 100, Congestion: func(congestion.Path) congestion.Controller {
			made++
			return told
		}})
		require.True(t, s.Done())
		require.Equal(t, units.Never, s.Next())
		var x transport.Packet
		require.False(t, s.Transmit(0, &x), "there is no message yet")
		want := []uint16{1000, 500, 1000, 1000, 1}
		require.EqualValues(t, 2, s.Post(1500))
		require.EqualValues(t, 5, s.Post(2001))
		for i, p := range send(t, s, 10, 5) {
			require.EqualValues(t, i, p.PSN)
			require.Equal(t, want[i], p.Payload)
			ends := i == 1 || i == 4
			require.Equal(t, ends, p.Flags&transport.Last != 0)
			a := answers(r, 20, p)
			require.Equal(t, ends, len(a) == 1, "packet %d", i)
			require.EqualValues(t, i+1, r.Taken())
			for _, a := range a {
				s.OnPacket(30, &a)
				require.EqualValues(t, i+1, s.Acked())
			}
		}
		require.True(t, s.Done())
		require.Equal(t, units.Never, s.Next(), "no timer between messages")
		require.EqualValues(t, 6, s.Post(7))
		p := send(t, s, 40, 1)[0]
		require.EqualValues(t, 5, p.PSN)
		require.EqualValues(t, 7, p.Payload)
		require.Equal(t, units.Instant(40).Add(map[Mode]units.Duration{GBN: defaultRTO, IRN: 160 * units.Microsecond, Timeout: defaultRTO}[mode]), s.Next(), "the timer begins with the packet")
		require.Equal(t, 1, made)
		require.Equal(t, 6, told.sent)
	}
}

// TestBadChannelOfConnection: whatever the channel does, all messages arrive, those too that are posted while others are under way or after
// all has arrived.
func TestBadChannelOfConnection(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 7))
		c := Config{Mode: Mode(r.IntN(3)), AckEvery: r.IntN(6), Window: units.Bytes(r.IntN(30_000)), Reorder: r.IntN(2) * 3}
		s, rcv := open(c)
		sizes := make([]units.Bytes, 1+r.IntN(12))
		n, size := 0, units.Bytes(0)
		for i := range sizes {
			sizes[i] = 1 + units.Bytes(r.IntN(40_000))
			size += sizes[i]
			n += int((sizes[i] + 999) / 1000)
		}
		post := func() {
			s.Post(sizes[0])
			sizes = sizes[1:]
		}
		post()
		channel := channeltest.Channel{Rand: r, Loss: r.Float64() * 0.3, Size: size, Open: true}
		channel.Step = func(int) {
			if len(sizes) > 0 && (s.Done() || r.IntN(50) == 0) {
				post()
			}
		}
		channel.Carry(t, seed, s, rcv, n)
	}
}
