// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/bare"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/transport/mprdma"
	"github.com/sdr-rdma/go-sdr/transport/racktlp"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/transport/uet"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestConnectionKeepsRate: DCQCN has cut the first messages of two senders that met at one receiver. The next of the same
// connections begins at what was left, and rises from there; one of its own begins at line rate.
func TestConnectionKeepsRate(t *testing.T) {
	took := func(conn uint16) des.Time {
		preset := congestion.DCQCNDefaults()
		c := Config{
			Transport: (&rc.Config{Congestion: must(congestion.DCQCN(preset)), CNPInterval: preset.CNPInterval, Repace: true}).Factory(),
			ECN:       []ECN{{KMin: 20 * units.KB, KMax: 20 * units.KB, PMax: 1}},
		}
		flows := []workload.Flow{
			{Src: 0, Dst: 2, Size: 4 * units.MiB, Conn: conn}, {Src: 1, Dst: 2, Size: 4 * units.MiB, Conn: conn},
			{Src: 0, Dst: 2, Size: units.MiB, Conn: conn, After: []int32{0, 1}},
		}
		s := build(t, star(3, 100*units.Gbit, units.Microsecond), c, flows)
		s.Run(des.Never)
		require.True(t, s.Done())
		require.NoError(t, s.Check())
		require.GreaterOrEqual(t, s.Flow(2).Start, max(s.Flow(0).Received, s.Flow(1).Received))
		return s.Flow(2).FCT
	}
	alone := des.Serialization(units.MiB+256*64, 100*units.Gbit)
	require.Less(t, took(0), alone+alone/10)
	require.Greater(t, took(1), 2*alone, "at line rate again")
}

// TestConnectionOrder: messages of a connection go one behind the other in the order in which they start, over one path, with packets numbered on; each is
// received and acknowledged by itself. Other queue pairs and classes are connections of their own.
func TestConnectionOrder(t *testing.T) {
	st := strackConfig(strack.Config{})
	for name, c := range map[string]Config{"gbn": {}, "irn": {Transport: (&rc.Config{Mode: rc.IRN}).Factory()}, "strack": st} {
		t.Run(name, func(t *testing.T) {
			c := c
			made := 0
			if c.Transport == nil {
				c.Transport = (&rc.Config{}).Factory()
			}
			factory := c.Transport
			c.CheckEvery = 100
			c.Transport = func(m transport.Message) (transport.Sender, transport.Receiver) {
				made++
				return factory(m)
			}
			const us = units.Instant(units.Microsecond)
			flows := []workload.Flow{
				{Src: 0, Dst: 5, Size: 100_000, Start: 2 * us, Conn: 1},
				{Src: 0, Dst: 5, Size: 3, Start: 1 * us, Conn: 1},
				{Src: 0, Dst: 5, Size: 50_001, Start: 2 * us, Conn: 1},
				{Src: 0, Dst: 5, Size: 5, Start: 3 * us, Conn: 1},
				{Src: 0, Dst: 5, Size: 5, Start: 3 * us, Conn: 2},
				{Src: 0, Dst: 5, Size: 5, Start: 3 * us, Conn: 1, Class: 2},
				{Src: 5, Dst: 0, Size: 5, Start: 3 * us, Conn: 1},
				{Src: 0, Dst: 5, Size: 70_000, Start: 900 * us, Conn: 1},
				{Src: 0, Dst: 5, Size: 70_000, Start: 900 * us},
			}
			s := build(t, leafSpine(2, 4, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond), c, flows)
			before := made
			s.Run(des.Never)
			s.Drain()
			require.True(t, s.Done())
			require.NoError(t, s.Check())
			require.Equal(t, 5, made-before, "connections and the message without")
			require.Zero(t, s.Result().Packets.Retransmitted)
			s.finishedAll(t)
			order := []int{1, 0, 2, 3, 7}
			for i, fi := range order {
				require.Equal(t, s.ends[0], s.ends[fi])
				if i > 0 {
					require.Less(t, s.Flow(order[i-1]).Received, s.Flow(fi).Received)
					require.LessOrEqual(t, s.records[order[i-1]].done, s.records[fi].done)
				}
			}
			require.Greater(t, s.Flow(3).Received, s.Flow(4).Received, "behind the long ones, unlike that of another queue pair")
			require.NotEqual(t, s.ends[0].srcPort, s.ends[4].srcPort)
			require.NotEqual(t, s.ends[0].srcPort, s.ends[8].srcPort)
			require.InEpsilon(t, int64(s.Flow(8).FCT), int64(s.Flow(7).FCT), 0.5)
			require.Empty(t, s.conns[0].posted)
		})
	}
}

// TestConnectionNeedsTransport: one that carries a single message says so.
func TestConnectionNeedsTransport(t *testing.T) {
	s, err := New(star(2, 100*units.Gbit, 1000), Config{Transport: (&dcp.Config{}).Factory()})
	require.NoError(t, err)
	err = s.AddFlows([]workload.Flow{{Src: 0, Dst: 1, Size: 1, Conn: 1}})
	require.ErrorContains(t, err, "choose gbn, irn or strack")
	require.Zero(t, s.Flows())
}

// TestCountsUnderWay: what messages repeat is counted before they are done, alone or on a connection, and once.
func TestCountsUnderWay(t *testing.T) {
	g := star(3, 100*units.Gbit, units.Microsecond)
	flows := []workload.Flow{
		{Src: 0, Dst: 2, Size: 300_000}, {Src: 1, Dst: 2, Size: 300_000, Conn: 1}, {Src: 1, Dst: 2, Size: 300_000, Conn: 1},
	}
	s := build(t, g, Config{Faults: []Fault{{Link: 2, Loss: netsim.Loss{Drop: 1}}}}, flows)
	s.Run(des.Span(50 * units.Millisecond))
	r := s.Result()
	require.Zero(t, r.Done)
	repeated, timeouts := uint64(0), uint64(0)
	for i := range flows {
		repeated, timeouts = repeated+uint64(s.Flow(i).Repeated), timeouts+uint64(s.Flow(i).Timeouts)
	}
	require.Positive(t, s.Flow(0).Timeouts)
	require.Positive(t, s.Flow(1).Timeouts)
	require.Zero(t, s.Flow(2).Timeouts, "its first message has them")
	require.Equal(t, timeouts, r.Timeouts)
	require.Equal(t, r.Packets.Retransmitted, repeated)

	s = build(t, g, Config{Faults: []Fault{{Link: 2, Loss: netsim.Loss{Drop: 0.05}}}}, flows)
	s.Run(des.Never)
	require.True(t, s.Done())
	require.EqualValues(t, s.Flow(0).Timeouts+s.Flow(1).Timeouts+s.Flow(2).Timeouts, s.Result().Timeouts)
	require.Positive(t, s.Result().Timeouts)
}

// TestCountsOfEachTransport: what senders say that they have repeated is what was sent again, and all tell of timeouts where nothing arrives.
func TestCountsOfEachTransport(t *testing.T) {
	for name, f := range map[string]transport.Factory{
		"gbn": (&rc.Config{}).Factory(), "irn": (&rc.Config{Mode: rc.IRN}).Factory(), "timeout": (&rc.Config{Mode: rc.Timeout}).Factory(),
		"racktlp": (&racktlp.Config{}).Factory(), "mprdma": (&mprdma.Config{}).Factory(),
		"strack": must((&strack.Config{}).Factory()), "uet": must((&uet.Config{}).Factory()),
	} {
		flows := permutation(8, 400_000, 3)
		s := build(t, star(8, 100*units.Gbit, units.Microsecond), Config{Transport: f, Forced: 0.02}, flows)
		s.Run(des.Never)
		require.True(t, s.Done(), name)
		repeated := uint64(0)
		for i := range flows {
			repeated += uint64(s.Flow(i).Repeated)
		}
		require.Positive(t, repeated, name)
		require.Equal(t, s.Result().Packets.Retransmitted, repeated, name)

		s = build(t, star(8, 100*units.Gbit, units.Microsecond), Config{Transport: f, Forced: 1}, flows)
		s.Run(des.Span(20 * units.Millisecond))
		for i := range flows {
			require.Positive(t, s.Flow(i).Timeouts, name)
		}
	}
}

// TestAcknowledged: what senders say is acknowledged rises to all there is, past much that is not the end of a message, and never beyond what arrived.
func TestAcknowledged(t *testing.T) {
	irn := (&rc.Config{Mode: rc.IRN}).Factory()
	for name, c := range map[string]Config{
		"bare": {Transport: bare.Factory(16, 4)}, "dcp": dcpConfig(t, dcp.Config{Message: 20}), "gbn": {Transport: (&rc.Config{}).Factory()},
		"racktlp": {Transport: (&racktlp.Config{}).Factory()}, "mprdma": {Transport: (&mprdma.Config{}).Factory()},
		"strack": {Transport: must((&strack.Config{}).Factory())}, "uet": {Transport: must((&uet.Config{}).Factory())},
		"irn": {Transport: irn}, "irn, connections": {Transport: irn},
	} {
		if c.Forced = 0.02; name == "bare" {
			c.Forced = 0
		}
		flows := permutation(8, 400_000, 3)
		if name == "irn, connections" {
			for i := range flows {
				flows[i].Conn = 1
			}
			flows = append(flows, flows...)
		}
		s := build(t, star(8, 100*units.Gbit, units.Microsecond), c, flows)
		before, steps := units.Bytes(0), 0
		for s.Step(100) == 100 {
			now := s.Acknowledged()
			require.GreaterOrEqual(t, now, before, name)
			require.LessOrEqual(t, uint64(now), s.Delivered(), name)
			if now > before {
				before = now
				steps++
			}
		}
		require.True(t, s.Done(), name)
		require.EqualValues(t, len(flows)*400_000, s.Acknowledged(), name)
		require.Greater(t, steps, 8, name)
	}
}
