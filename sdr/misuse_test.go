// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// An opener is a driver that opens the first message it is granted and then runs what it is told, once.
type opener struct {
	mr     *sdr.MR
	stream sdr.SendStream
	opened bool
	do     func(*sdr.Port)
	failed error
	// needed is what COMPLETED said of each message.
	needed []uint64
}

func (o *opener) Progress(p *sdr.Port) units.Instant {
	for _, e := range p.Events {
		if e.Kind == sdr.EventGrant && !o.opened {
			o.stream, _ = p.OpenGranted(e.Seq, o.mr, 0, e.Length)
			o.opened = true
		}
		if e.Kind == sdr.EventCompleted && e.Seq > 0 {
			o.needed = append(o.needed, e.Needed)
		}
	}
	if o.do != nil {
		o.do(p)
		o.do = nil
	}
	return units.Never
}

func (o *opener) Failed(err error) { o.failed = err }

// newOpener connects a queue pair with an opener to one that has posted a buffer of 4 packets.
func newOpener(t *testing.T) (*pair, *opener, sdr.RecvHandle) {
	p := newUnconnected(t, link(), small)
	o, cfg := new(opener), small
	cfg.Driver = o
	var err error
	p.qp[0], err = p.ctx[0].NewQP(cfg)
	require.NoError(t, err)
	o.mr = p.mr(0, 16*1024, true)
	p.connect()
	r, err := p.qp[1].PostRecv(p.mr(1, 4096, false), 0, 4096)
	require.NoError(t, err)
	p.until(units.Second, func() bool { return o.opened })
	return p, o, r
}

// TestTooLongForADatagram: a frame that no datagram carries would be sent for ever, or make what the peer gets unreadable. It ends the queue
// pair, which says what was too long.
func TestTooLongForADatagram(t *testing.T) {
	for name, send := range map[string]func(*sdr.Port){
		"START":       func(p *sdr.Port) { p.Announce(1, 100, 0, false, make([]byte, 65)) },
		"long START":  func(p *sdr.Port) { p.Announce(1, 100, 0, false, make([]byte, 10_000)) },
		"SCHEME":      func(p *sdr.Port) { p.SendScheme(1, false, 0, make([]byte, p.MaxScheme()+1)) },
		"long SCHEME": func(p *sdr.Port) { p.SendScheme(1, false, 0, make([]byte, 10_000)) },
	} {
		p, o, _ := newOpener(t)
		o.do = send
		p.qp[0].Kick()
		p.run(50 * ms)
		require.ErrorIs(t, o.failed, sdr.ErrTooLong, name)
		require.ErrorContains(t, o.failed, "at most", name)
		require.Zero(t, p.qp[1].Stats().Control.Malformed, name)
	}
	p, o, _ := newOpener(t)
	o.do = func(p *sdr.Port) {
		p.Announce(1, 100, 0, false, make([]byte, 64))
		p.SendScheme(1, false, 0, make([]byte, p.MaxScheme()))
	}
	p.qp[0].Kick()
	p.run(50 * ms)
	require.NoError(t, p.qp[0].Err())
	require.NoError(t, p.qp[1].Err())
}

// TestInjectOutOfRange: packets that a message doesn't have, and channels that a queue pair doesn't, are not sent.
func TestInjectOutOfRange(t *testing.T) {
	p, o, r := newOpener(t)
	o.do = func(p *sdr.Port) {
		for _, c := range [][3]int{{4, 1, 0}, {100, 1, 0}, {-1, 1, 0}, {-1, 2, 0}, {0, -1, 0}, {0, 0, 0}, {0, 1, 2}, {0, 1, -1}, {1 << 60, 1, 0}, {0, 1 << 60, 2}} {
			require.Zero(t, p.Inject(o.stream, c[0], c[1], c[2]), "%v", c)
		}
		require.Zero(t, p.Repeat(o.stream, 1, 4, 1024, 0))
		require.Zero(t, p.Repeat(o.stream, 1, 0, 1024, 2))
		require.Equal(t, 2, p.Inject(o.stream, 2, 7, 0), "as many as it has")
		for _, channel := range []int{-1, 2} {
			require.Zero(t, p.Room(1, channel))
			require.True(t, p.Probe(o.stream, channel, 0))
		}
		require.True(t, p.Probe(o.stream, 0, -1))
	}
	p.qp[0].Kick()
	p.run(50 * ms)
	require.NoError(t, p.qp[0].Err())
	require.EqualValues(t, 1, p.qp[0].Stats().Probes)
	require.Zero(t, p.ctx[1].Stats().Invalid)
	m, err := r.Packets()
	require.NoError(t, err)
	require.Equal(t, 2, m.Count())
	require.Equal(t, 2, m.NextSet(0))
}

// TestWindowOfThePeer: what a peer says that it takes back to back is negative nowhere, and sums with it don't overflow.
func TestWindowOfThePeer(t *testing.T) {
	p := newUnconnected(t, link(), small)
	info := p.qp[1].Info()
	info[32] = 0x80 // recvBurst's highest bit
	require.ErrorIs(t, p.qp[0].StartConnect(info), sdr.ErrMismatch)

	p, o, _ := newOpener(t)
	for number, says := range []uint64{1000, 1 << 40, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		window := wire.Frame{Type: wire.TypeWindow, Length: says}
		p.qp[0].ReceiveFrames(uint32(1000+number), window.Append(nil))
		var got units.Bytes
		o.do = func(p *sdr.Port) { got = p.PeerWindow() }
		p.qp[0].Kick()
		p.run(ms)
		require.EqualValues(t, min(says, 1<<40), got)
	}
}

// TestOutcomesThatNobodyAcknowledges: a peer that acknowledges grants, and never how they ended, doesn't make this end keep more outcomes than
// two rounds of slots.
func TestOutcomesThatNobodyAcknowledges(t *testing.T) {
	p := newPair(t, link(), small)
	dst := p.mr(1, 4096, false)
	p.net.SetFilter(func(sim.PacketInfo) sim.Verdict { return sim.Drop })
	most := 2 * small.Split.Slots()
	for n := range 2 * most {
		r, err := p.qp[1].PostRecv(dst, 0, 4096)
		if err != nil {
			require.ErrorIs(t, err, sdr.ErrAgain)
			break
		}
		require.NoError(t, r.Complete())
		p.until(units.Second, r.Done)
		ack := wire.Frame{Type: wire.TypeAck, Code: uint8(wire.TypeCTS), ID: r.Seq(), Count: 1}
		p.qp[1].ReceiveFrames(uint32(1000+n), ack.Append(nil))
	}
	require.Equal(t, most, p.qp[1].Held().Completed)
}

// A poster is a driver that posts a buffer of 4 packets, and completes it when it is full.
type poster struct {
	mr     *sdr.MR
	role   sdr.Role
	r      sdr.RecvHandle
	posted bool
}

func (o *poster) Progress(p *sdr.Port) units.Instant {
	if !o.posted {
		var err error
		o.r, err = p.PostRecv(o.mr, 0, 4096, sdr.RecvOptions{Label: sdr.Label{Role: o.role}})
		o.posted = err == nil
	} else if o.r.Bitmap().AllSet() {
		p.Complete(o.r)
	}
	return units.Never
}

func (o *poster) Failed(error) {}

// newPoster connects an opener to a poster, whose message it has opened.
func newPoster(t *testing.T, role sdr.Role) (*pair, *opener, *poster) {
	p := newUnconnected(t, link(), small)
	from, to := &opener{mr: p.mr(0, 4096, true)}, &poster{mr: p.mr(1, 4096, false), role: role}
	for i, d := range []sdr.Driver{from, to} {
		cfg := small
		cfg.Driver = d
		var err error
		p.qp[i], err = p.ctx[i].NewQP(cfg)
		require.NoError(t, err)
	}
	p.connect()
	p.until(units.Second, func() bool { return from.opened })
	return p, from, to
}

// TestMoreRepeatsThanAreNumbered: a repeat whose number has no place in the immediate bears the largest that has, so that COMPLETED says that
// as many were needed, and not that it was the first transmission.
func TestMoreRepeatsThanAreNumbered(t *testing.T) {
	for number, want := range map[int]uint64{0: 0, 7: 7, 15: 15, 16: 15, 1000: 15, -1: 0} {
		p, from, _ := newPoster(t, sdr.RoleData)
		from.do = func(p *sdr.Port) {
			require.Equal(t, 3, p.Inject(from.stream, 0, 3, 0))
			require.Equal(t, 1, p.Repeat(from.stream, number, 3, 1024, 0))
		}
		p.qp[0].Kick()
		p.until(units.Second, func() bool { return len(from.needed) == 1 })
		require.Equal(t, want, from.needed[0], "repeat %d", number)
	}
}

// TestEndSaysLess: END tells how long a parity message is. Data is as long as its transfer, whatever END says: it would else be whole with bytes
// missing.
func TestEndSaysLess(t *testing.T) {
	for _, role := range []sdr.Role{sdr.RoleData, sdr.RoleParity} {
		p, from, to := newPoster(t, role)
		from.do = func(p *sdr.Port) { require.Equal(t, 1, p.Inject(from.stream, 0, 1, 0)) }
		p.qp[0].Kick()
		p.run(50 * ms)
		end := wire.Frame{Type: wire.TypeEnd, ID: to.r.Seq(), Length: 1024}
		p.qp[1].ReceiveFrames(1000, end.Append(nil))
		p.run(50 * ms)
		require.Equal(t, role == sdr.RoleParity, to.r.Done(), "role %d", role)
	}
}

// TestLargestMessage: a message of QPConfig.MaxMessage is posted, at either end, and none that has a byte more.
func TestLargestMessage(t *testing.T) {
	p := newPair(t, link(), small)
	src, dst := p.mr(0, units.MiB+1, true), p.mr(1, units.MiB+1, false)
	for n, want := range map[units.Bytes]error{units.MiB: nil, units.MiB + 1: sdr.ErrTooLong} {
		_, err := p.qp[1].PostRecv(dst, 0, n)
		require.ErrorIs(t, err, want)
		_, err = p.qp[0].PostSend(src, 0, n, sdr.SendOptions{})
		require.ErrorIs(t, err, want)
		_, err = p.qp[0].StartStream(src, 0, n, sdr.SendOptions{})
		require.ErrorIs(t, err, want)
	}
}

// TestArrivalsOfTooFewChannels: a receive whose arrivals have no place for some of the channels is refused, before a packet comes on one.
func TestArrivalsOfTooFewChannels(t *testing.T) {
	p, o, _ := newOpener(t)
	src := p.mr(1, 4096, true)
	errs := map[int]error{}
	o.do = func(port *sdr.Port) {
		for _, channels := range []int{0, 1, 2, 3} {
			_, errs[channels] = port.PostRecv(o.mr, 0, 4096, sdr.RecvOptions{Arrivals: sdr.NewArrivals(channels)})
		}
	}
	p.qp[0].Kick()
	p.run(50 * ms)
	for range 2 {
		_, err := p.qp[1].PostSend(src, 0, 4096, sdr.SendOptions{})
		require.NoError(t, err)
	}
	p.run(50 * ms)
	require.Len(t, errs, 4)
	for channels, err := range errs {
		if channels < small.Channels {
			require.ErrorContains(t, err, "Channels")
		} else {
			require.NoError(t, err)
		}
	}
}

// TestStreamRanges: what a stream can't send is refused by what is wrong with it.
func TestStreamRanges(t *testing.T) {
	p := newPair(t, link(), small)
	s, err := p.qp[0].StartStream(p.mr(0, 4000, true), 0, 4000, sdr.SendOptions{})
	require.NoError(t, err)
	for _, c := range []struct {
		off, n units.Bytes
		says   string
	}{
		{3072, 1024, "[3072, 3072+1024) is outside the message's 4000 bytes"},
		{-1024, 1024, "outside"},
		{0, 1 << 62, "outside"},
		{1024, 0, "0 bytes at 1024: send at least one"},
		{1024, -1, "send at least one"},
		{1000, 1024, "does not lie on packets of 1024 bytes"},
		{0, 1000, "does not lie on packets"},
	} {
		err := s.Send(c.off, c.n)
		require.ErrorIs(t, err, sdr.ErrArgument)
		require.ErrorContains(t, err, c.says)
	}
	require.NoError(t, s.Send(3072, 928))
	require.NoError(t, s.End())
}

// TestStreamIntoAShorterBuffer: once the buffer is known, a stream ends where it does.
func TestStreamIntoAShorterBuffer(t *testing.T) {
	p := newPair(t, link(), small)
	r, err := p.qp[1].PostRecv(p.mr(1, 3000, false), 0, 3000)
	require.NoError(t, err)
	s, err := p.qp[0].StartStream(p.mr(0, 4096, true), 0, 4096, sdr.SendOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Send(0, 2048))
	m, err := r.Packets()
	require.NoError(t, err)
	p.until(units.Second, func() bool { return m.Has(1) })
	require.ErrorContains(t, s.Send(2048, 2048), "outside the message's 3000 bytes")
	require.NoError(t, s.Send(2048, 952))
	require.NoError(t, s.End())
	p.until(units.Second, func() bool { return r.Bitmap().AllSet() })
}
