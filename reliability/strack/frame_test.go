// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

const testRTT = 10 * units.Millisecond

// sending is a sender over four channels that has sent 100 units of 100 000 at once.
func sending(t testing.TB) (*sender, units.Instant) {
	t.Helper()
	env := &scheme.Env{Channels: 4, RTT: testRTT, MinRTT: testRTT, Rate: 10 * units.Gbit, MaxFrame: 1024, DataLimit: 100_000}
	s, err := New(Config{})
	require.NoError(t, err)
	x, err := s.NewSender(scheme.Transfer{Length: 100_000 * 4096, UnitBytes: 4096, Units: 100_000}, env)
	require.NoError(t, err)
	snd := x.(*sender)
	poll(t, snd, 1000, 100)
	return snd, 1000
}

func poll(t testing.TB, s *sender, now units.Instant, n int) {
	t.Helper()
	out := scheme.Output{Budget: n, Window: 1 << 20, Sends: make([]scheme.Send, 0, n), Frame: make([]byte, 0, 1024)}
	_, err := s.Poll(now, &out)
	require.NoError(t, err)
	sent := make([]scheme.Sent, 0, n)
	for _, x := range out.Sends {
		sent = append(sent, scheme.Sent{Unit: x.Unit, Channel: x.Channel})
	}
	s.OnSent(now, sent)
}

func frameOf(acks []ack, channels []delivered, computed ...byte) []byte {
	b := []byte{version, byte(len(acks))}
	for i := range acks {
		b = acks[i].append(b)
	}
	b = append(b, byte(len(channels)))
	for i := range channels {
		b = channels[i].append(b)
	}
	return append(append(b, byte(len(computed))), computed...)
}

// What the receiver's half writes the sender's reads.
func TestFrameRoundTrip(t *testing.T) {
	acks := []ack{{^uint64(0), 1 << 50, 77, -1, 3, 9, 64, flagECN}, {1, 0, 15, 255, 1 << 29, 1 << 29, 1<<29 - 64, flagProbe}}
	channels := []delivered{{0, 1, 0}, {255, 1 << 61, 1 << 60}}
	var r report
	require.NoError(t, r.parse(frameOf(acks, channels, 0, 7, 191), 256))
	require.Equal(t, acks, r.acks)
	require.Equal(t, channels, r.channels)
	require.Equal(t, []uint8{0, 7, 191}, r.computed)
}

// A hostile acknowledgement is an error, which Conn counts as a violation of the peer, and moves no window: of units that were
// not sent, of paths that there are not, counts that can't be.
func TestHostileAcknowledgements(t *testing.T) {
	good := ack{unit: 3, channel: 1, expected: 4, received: 4 * 4096}
	window := func(s *sender) units.Bytes { _, n := s.window.Limits(2000); return n }
	for name, spoil := range map[string]func(*ack) []byte{
		"unit not sent":              func(a *ack) []byte { a.unit = 100; return nil },
		"channel that isn't":         func(a *ack) []byte { a.channel = 4; return nil },
		"expected not sent":          func(a *ack) []byte { a.expected = 101; return nil },
		"more received than sent":    func(a *ack) []byte { a.received = 100*4096 + 1; return nil },
		"less received than before":  func(a *ack) []byte { a.received = 4*4096 - 1; return nil },
		"beyond what was sent":       func(a *ack) []byte { a.beyond = 97; return nil },
		"bits of units not sent":     func(a *ack) []byte { a.base, a.bitmap = 64, 1<<36; return nil },
		"a bitmap beyond the end":    func(a *ack) []byte { a.base = 1 << 20; return nil },
		"flags that mean nothing":    func(a *ack) []byte { a.flags = 4; return nil },
		"more marked than delivered": func(a *ack) []byte { return frameOf(nil, []delivered{{0, 5, 6}}) },
		"delivered by no channel":    func(a *ack) []byte { return frameOf(nil, []delivered{{4, 5, 5}}) },
		"computed without parity":    func(a *ack) []byte { return frameOf(nil, nil, 3) },
		"too many computed":          func(a *ack) []byte { return frameOf(nil, nil, make([]byte, mostParity+1)...) },
		"cut":                        func(a *ack) []byte { f := frameOf([]ack{*a}, nil); return f[:len(f)-1] },
		"too long":                   func(a *ack) []byte { return append(frameOf([]ack{*a}, nil), 0) },
		"of another version":         func(a *ack) []byte { return []byte{version + 1, 0, 0, 0} },
		"empty":                      func(*ack) []byte { return []byte{} },
	} {
		s, _ := sending(t)
		before := window(s)
		a := good
		f := spoil(&a)
		if f == nil {
			f = frameOf([]ack{a}, nil)
		}
		require.Error(t, s.OnControl(2000, f), name)
		require.Equal(t, before, window(s), name)
		require.Equal(t, 100, s.Outstanding(), name)
	}
	s, _ := sending(t)
	require.NoError(t, s.OnControl(2000, frameOf([]ack{good}, nil)))
	require.Equal(t, 96, s.Outstanding())
}

// Which units the receiver has computed is what the peer says: only of parity that there is, and of units that were sent. Lost were
// those behind which something has arrived.
func TestWhatWasComputed(t *testing.T) {
	env := &scheme.Env{Channels: 4, RTT: testRTT, MinRTT: testRTT, Rate: 10 * units.Gbit, MaxFrame: 1024, DataLimit: 16}
	s, err := New(Config{Parity: true})
	require.NoError(t, err)
	s.(*sprayed).losses = losses{1000, 10}
	x, err := s.NewSender(scheme.Transfer{Length: 16 * 4096, UnitBytes: 4096, Units: 16}, env)
	require.NoError(t, err)
	snd := x.(*sender)
	parity := snd.coding.parity
	poll(t, snd, 1000, 10)
	require.True(t, snd.learn([]uint8{0, 9}))
	require.False(t, snd.learn([]uint8{10}), "not sent")
	require.True(t, snd.learn([]uint8{1, 2, 3, 4, 5, 6, 7, 8}[:parity]))
	require.False(t, snd.learn([]uint8{1, 2, 3, 4, 5, 6, 7, 8}[:parity+1]), "by less parity")
	snd.coding.state = coded
	poll(t, snd, 1000, 20)
	require.EqualValues(t, 16+parity, snd.core.Sent())
	require.True(t, snd.learn([]uint8{15}))
	for _, u := range []uint8{16, 16 + uint8(parity), 255} {
		require.False(t, snd.learn([]uint8{u}), "unit %d is none", u)
	}
	arrived := func(u uint32, after uint32) {
		snd.paths.state[snd.at(u).channel].arrived = snd.at(u).order + after
	}
	arrived(0, 0)
	require.True(t, snd.learn([]uint8{0}))
	require.Zero(t, snd.lost, "it has arrived itself")
	arrived(0, 1)
	require.True(t, snd.learn([]uint8{0}))
	require.Equal(t, 1, snd.lost)

	for _, c := range []struct {
		name   string
		change func()
		want   losses
	}{
		{"lost and sent again", func() {
			snd.scheme.losses, snd.stats.Retransmitted = losses{}, 2
			for u := range uint32(8) { // of the other half nobody knows
				arrived(u, 1)
			}
		}, losses{16, 1*2 + 2}},
		{"more than all", func() { snd.lost = 16 }, losses{32, 20}},
		{"congestion", func() { snd.marked = true }, losses{32, 20}},
		{"too long for parity", func() { snd.marked, snd.transfer.Units = false, mostCoded+1 }, losses{32, 20}},
		{"without parity", func() { snd.cfg.Parity, snd.transfer.Units = false, 16 }, losses{32, 20}},
	} {
		c.change()
		snd.OnCompleted(1000)
		require.Equal(t, c.want, snd.scheme.losses, c.name)
	}
}

// What was learned of losses bounds parity, and counts less the more is known.
func TestLosses(t *testing.T) {
	var l losses
	l.add(1000, 0)
	require.Zero(t, l.parity(16))
	l.add(0, 10)
	require.Equal(t, core.Parity(16, 0.01), l.parity(16))
	require.NotZero(t, l.parity(mostCoded))
	require.Zero(t, l.parity(mostCoded+1), "a computed unit's number is a byte")
	l.add(0, 990)
	require.Equal(t, core.Parity(16, mostLost), l.parity(16))
	require.LessOrEqual(t, l.parity(mostCoded), mostParity)
	l = losses{manyUnits - 2, 100}
	l.add(2, 0)
	require.Equal(t, losses{manyUnits, 100}, l)
	l.add(2, 0)
	require.Equal(t, losses{manyUnits/2 + 1, 50}, l)
}

// No frame, however made, moves the window beyond its bounds, or what is in flight below nothing.
func FuzzOnControl(f *testing.F) {
	f.Add(frameOf([]ack{{unit: 3, channel: 1, expected: 4, received: 4 * 4096}}, []delivered{{1, 4, 1}}), uint32(20_000_000))
	f.Add(frameOf([]ack{{unit: 1, flags: flagProbe, channel: -1}, {unit: 99, channel: 0, beyond: 1, received: 4096, base: 64, bitmap: 1 << 35}}, nil), uint32(1))
	f.Add([]byte{version, 127}, uint32(0))
	f.Add([]byte{}, uint32(9))
	f.Fuzz(func(t *testing.T, frame []byte, after uint32) {
		s, now := sending(t)
		for range 3 {
			now = now.Add(units.Duration(after))
			_ = s.OnControl(now, frame)
			bdp := (10 * units.Gbit).Bytes(testRTT)
			if _, n := s.window.Limits(now); n < s.msg.MTU || n > bdp*3/2 {
				t.Fatalf("window of %d bytes", n)
			}
			if n := s.Outstanding(); n < 0 || n > 100+1000 {
				t.Fatalf("%d outstanding", n)
			}
			poll(t, s, now, 300)
		}
	})
}

// Parameters come from the network: any bytes are refused or give bounded values.
func FuzzParams(f *testing.F) {
	f.Add((&params{64, 4, 3}).append(nil))
	f.Add([]byte{version, 0xff, 0xff, 0xff, 0xff, 1, 4})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parseParams(b); err == nil && (p.span < 64 || p.span > 1<<20 || p.ackUnits < 1 || p.ackUnits > maxAckUnits || p.parity > mostParity) {
			t.Fatalf("%+v", p)
		}
	})
}

// A peer can't have a receiver keep track of more packets than its transfer may need: one of a byte costs what one of a byte takes.
func TestSpanIsBoundedByTheTransfer(t *testing.T) {
	for _, n := range []int{1, 64, 65, 1000} {
		env := &scheme.Env{Channels: 4, RTT: testRTT, MinRTT: testRTT, Rate: 400 * units.Gbit, MaxFrame: 1024, DataLimit: n}
		s, err := New(Config{})
		require.NoError(t, err)
		info := scheme.Transfer{Length: units.Bytes(n) * 4096, UnitBytes: 4096, Units: n}
		x, err := s.NewSender(info, env)
		require.NoError(t, err)
		info.Params = x.Params()
		_, err = s.NewReceiver(info, env)
		require.NoError(t, err)

		p, err := parseParams(info.Params)
		require.NoError(t, err)
		p.span += 128
		info.Params = p.append(nil)
		_, err = s.NewReceiver(info, env)
		require.ErrorIs(t, err, errParams, "%d units", n)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{LineRate: -1}, {BaseRTT: -1}, {BaseRTT: 2 * units.Second}, {MinTimeout: -1}, {AckUnits: -1}, {AckUnits: 1025}, {AckDelay: -2},
	} {
		_, err := New(c)
		require.Error(t, err, "%+v", c)
	}
	s, err := New(Config{})
	require.NoError(t, err)
	require.Equal(t, "strack", s.Name())
	ok := scheme.Env{Channels: 1, MaxFrame: minFrame}
	tr := scheme.Transfer{Units: 1, Length: 1, UnitBytes: 1}
	_, err = s.NewReceiver(tr, &ok)
	require.ErrorIs(t, err, errParams)
	for _, e := range []scheme.Env{{Channels: 0, MaxFrame: minFrame}, {Channels: 257, MaxFrame: minFrame}, {Channels: 1, MaxFrame: minFrame - 1}} {
		_, err = s.NewSender(tr, &e)
		require.Error(t, err)
	}
}

// Units larger than a packet of the core count like others.
func TestLargeUnits(t *testing.T) {
	for _, unit := range []units.Bytes{1, 4096, 32 * units.KiB, 64 * units.KiB, 65_537, units.MiB + 1} {
		tr := scheme.Transfer{Length: 10*unit + 1, UnitBytes: unit, Units: 11}
		m := messageOf(&tr, units.Gbit, testRTT)
		require.EqualValues(t, 11, m.Packets(), "%d", unit)
		require.LessOrEqual(t, m.MTU, units.Bytes(maxPayload))
		if unit <= maxPayload {
			require.Equal(t, unit, m.MTU)
			require.EqualValues(t, 1, m.Payload(10))
		}
		if unit >= 4096 {
			require.InEpsilon(t, float64(units.Gbit.Bytes(testRTT))/float64(unit), float64(m.LineRate.Bytes(testRTT))/float64(m.MTU), 0.01, "%d", unit)
		}
	}
}

// Neither half allocates once it runs.
func TestAllocatesNothing(t *testing.T) {
	s, now := sending(t)
	out := scheme.Output{Budget: 16, Window: 1 << 20, Sends: make([]scheme.Send, 0, 64), Frame: make([]byte, 0, 1024)}
	acks, channels, frame := make([]ack, 1), make([]delivered, 1), make([]byte, 0, 256)
	n := uint32(0)
	require.Zero(t, testing.AllocsPerRun(500, func() {
		n += 4
		now += 10_000
		acks[0] = ack{unit: n - 1, channel: 0, expected: n, received: uint64(n) * 4096}
		channels[0] = delivered{0, uint64(n), 0}
		frame = append(frame[:0], version, 1)
		frame = acks[0].append(frame)
		frame = append(frame, 1)
		frame = append(channels[0].append(frame), 0)
		if err := s.OnControl(now, frame); err != nil {
			panic(err)
		}
		out.Reset()
		if _, err := s.Poll(now, &out); err != nil {
			panic(err)
		}
	}))
}
