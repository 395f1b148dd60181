// SPDX-License-Identifier: Apache-2.0

package strack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/transport"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// The path of both traces: 8 Gbit/s, so a byte takes a nanosecond, through one switch; packets of 4096 bytes and 64 of
// header, acknowledgements of 84 bytes.
const (
	traceUnits = 3000
	tracePaths = 4
	traceProp  = units.Duration(100_003)
	traceThere = 2*4160 + 2*traceProp
	traceBack  = 2*84 + 2*traceProp
	traceRate  = 8 * units.Gbit
)

// What happens to first transmissions, in both.
func traceDrops(unit uint32) bool { return unit%97 == 13 || unit/8 == 100 }
func traceMarks(unit uint32) bool { return unit/50%5 == 2 }

func sendLine(unit uint32, path int, repeat, probe bool) string {
	if probe {
		unit = 0
	}
	return fmt.Sprintf("send %d on path %d, repeat %v, probe %v", unit, path, repeat, probe)
}

// fabricSender and fabricReceiver are the core's two halves in the fabric.
type fabricSender struct {
	transport.Sender
	lines *[]string
}

func (s fabricSender) Transmit(now units.Instant, p *transport.Packet) bool {
	if !s.Sender.Transmit(now, p) {
		return false
	}
	*s.lines = append(*s.lines, sendLine(p.PSN, int(p.Entropy), p.Flags&transport.Repeat != 0, p.Kind == transport.Probe))
	return true
}

func (s fabricSender) OnPacket(now units.Instant, p *transport.Packet) {
	*s.lines = append(*s.lines, strack.AckLine(p))
	s.Sender.OnPacket(now, p)
}

type fabricReceiver struct{ transport.Receiver }

func (r fabricReceiver) OnPacket(now units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind == transport.Data && p.Flags&transport.Repeat == 0 {
		if traceDrops(p.PSN) {
			return
		}
		if traceMarks(p.PSN) {
			p.Flags |= transport.CE
		}
	}
	r.Receiver.OnPacket(now, p, out)
}

func traceOfFabric(t *testing.T) (lines []string) {
	g, err := topo.Parse("star:2,8G,100003ns")
	require.NoError(t, err)
	cfg := core.Config{Paths: tracePaths, BaseRTT: traceThere + traceBack, RTO: units.Second}
	inner, err := cfg.Factory()
	require.NoError(t, err)
	s, err := fabric.New(g, fabric.Config{AckSize: 84, Transport: func(m transport.Message) (transport.Sender, transport.Receiver) {
		m.BaseRTT = traceThere + traceBack
		snd, rcv := inner(m)
		return fabricSender{snd, &lines}, fabricReceiver{rcv}
	}})
	require.NoError(t, err)
	hosts := g.Hosts()
	require.NoError(t, s.AddFlows([]workload.Flow{{Src: hosts[0], Dst: hosts[1], Size: traceUnits * 4096, Start: units.Instant(10 * ms)}}))
	s.Run(des.Never - 1)
	require.True(t, s.Done())
	return lines
}

// traced is the scheme, and what its sender does.
type traced struct {
	scheme.Scheme
	lines *[]string
}

func (s traced) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	x, err := s.Scheme.NewSender(t, env)
	return tracedSender{x, s.lines}, err
}

type tracedSender struct {
	scheme.Sender
	lines *[]string
}

func (s tracedSender) OnControl(now units.Instant, frame []byte) error {
	*s.lines = append(*s.lines, strack.FrameLines(frame, tracePaths)...)
	return s.Sender.OnControl(now, frame)
}

func (s tracedSender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	next, err := s.Sender.Poll(now, out)
	for _, x := range out.Sends {
		*s.lines = append(*s.lines, sendLine(uint32(x.Unit.Index()), x.Channel, x.Repeat, x.Unit.IsProbe()))
	}
	return next, err
}

// A markingCQ finds chosen packets marked.
type markingCQ struct {
	backend.CQ
	marks func(imm uint32) bool
}

func (q *markingCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	n, err := q.CQ.Poll(now, dst)
	for i := range dst[:n] {
		if c := &dst[i]; c.Kind == backend.KindWrite && c.Len > 0 && q.marks(c.Imm) {
			c.Flags |= backend.FlagECN
		}
	}
	return n, err
}

func traceOfSim(t *testing.T) (lines []string) {
	on := false
	split := sdr.QPConfig{}.Split
	first := func(imm uint32) (unit uint32, ok bool) {
		return imm >> split.FragmentBits & (1<<split.OffsetBits - 1), on && imm&(1<<split.FragmentBits-1) == 0
	}
	mk := func() scheme.Scheme {
		return traced{makeScheme(strack.Config{
			Bitmap: true, AckDelay: -1, LineRate: traceRate, BaseRTT: traceThere + traceBack, MinTimeout: units.Second,
		})(), &lines}
	}
	p := newPair(t, sim.Config{MaxMTU: 4096, Link: sim.Link{Delay: traceThere}, Back: &sim.Link{Delay: traceBack}},
		sdr.QPConfig{MTU: 4096, Channels: tracePaths},
		reliability.Config{Rate: units.RateOf(4096, 4160), Congestion: congestion.Spec{Name: "none"}},
		[2]func() scheme.Scheme{mk, mk},
		func(d backend.Device) backend.Device {
			marks := func(imm uint32) bool { unit, ok := first(imm); return ok && traceMarks(unit) }
			return cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return &markingCQ{q, marks} })
		})
	split = p.conn[0].QP().Config().Split
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if unit, ok := first(i.Imm); ok && i.Direction == sim.AtoB && i.Kind == backend.KindWrite && i.Length > 0 && traceDrops(unit) {
			return sim.Drop
		}
		return sim.Deliver
	})
	const size = traceUnits * 4096
	src, from := p.register(0, size, 1)
	dst, to := p.register(1, size, 0)
	r, err := p.conn[1].StartRecv(to, 0, size)
	require.NoError(t, err)
	start := p.net.Now().Add(10 * ms)
	p.until(units.Second, func() bool { return p.net.Now() >= start })
	on = true
	s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
	require.NoError(t, err)
	p.until(10*units.Second, func() bool { return isDone(s) && isDone(r) })
	require.NoError(t, s.Err())
	require.Equal(t, src, dst)
	return lines
}

// The same core decides the same in the fabric and on sdr's channels: with the same path, losses and marks, each
// transmission and each acknowledgement is the same, in the same order. Over channels the last acknowledgement is
// Conn's, so that the trace ends a little sooner.
func TestTraceIsTheFabrics(t *testing.T) {
	want, got := traceOfFabric(t), traceOfSim(t)
	repeats, marks := 0, 0
	for i := range min(len(want), len(got)) {
		require.Equal(t, want[i], got[i], "line %d of %d and %d", i, len(want), len(got))
		if strings.Contains(got[i], "repeat true") {
			repeats++
		}
		if strings.Contains(got[i], "marked true") {
			marks++
		}
	}
	require.LessOrEqual(t, len(got), len(want))
	require.Greater(t, len(got)+3, len(want))
	require.Greater(t, repeats, traceUnits/97)
	require.Greater(t, marks, traceUnits/5/8)
	t.Logf("%d lines, %d repeats, %d marked", len(got), repeats, marks)
}
