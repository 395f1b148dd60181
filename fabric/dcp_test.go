// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/units"
)

// dcpConfig is DCP on packets of 1000 and 48 bytes, as simulators count.
func dcpConfig(t *testing.T, c dcp.Config) Config {
	w, err := trim.Weight(16, trim.NS3.Ratio(1048, 48))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	return Config{
		MTU: 1000, Header: 48, AckSize: 60, CheckEvery: 10_000, Transport: c.Factory(),
		Trim: &Trim{Header: 48, Threshold: 100 * units.KB, Weight: w}, Routing: Routing{Mode: LeastQueue},
	}
}

// An incast through sprayed paths: everything that was trimmed is returned and repeated, nothing else is, no header
// is lost and so no timer is needed.
func TestDCPIncast(t *testing.T) {
	for _, track := range []dcp.Track{dcp.Counter, dcp.Bitmap} {
		g := leafSpine(2, 8, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
		s := build(t, g, dcpConfig(t, dcp.Config{Track: track, Message: 500}), nil)
		var flows []workload.Flow
		for i := range 12 {
			flows = append(flows, workload.Flow{Src: i, Dst: 15, Size: units.MB + units.Bytes(i)*777})
		}
		require.NoError(t, s.AddFlows(flows))
		s.Step(1e7)
		require.True(t, s.Done())
		s.Drain()
		r := s.Result()
		require.Greater(t, r.Packets.Trimmed, uint64(1000))
		require.Equal(t, r.Packets.Trimmed, r.Packets.Retransmitted, "each trim is repeated once")
		require.Zero(t, r.Packets.Dropped)
		require.Zero(t, r.Packets.Headers)
	}
}

// The receivers of two incasts send, too, and acknowledgements to them meet queues that trim: dropped as published, they cost timeouts; with the
// headers they don't.
func TestDCPSafeAcks(t *testing.T) {
	for _, safe := range []bool{false, true} {
		c := dcpConfig(t, dcp.Config{Message: 100})
		c.Trim.Threshold, c.Trim.SafeAcks = 20*units.KB, safe
		var flows []workload.Flow
		for i := range 6 {
			flows = append(flows, workload.Flow{Src: 2 + i, Dst: 0, Size: 500 * units.KB}, workload.Flow{Src: 8 + i, Dst: 1, Size: 500 * units.KB})
		}
		flows = append(flows, workload.Flow{Src: 0, Dst: 14, Size: 2 * units.MB}, workload.Flow{Src: 1, Dst: 15, Size: 2 * units.MB})
		s := build(t, star(16, 100*units.Gbit, units.Microsecond), c, flows)
		s.Step(2e7)
		require.True(t, s.Done())
		r := s.Result()
		require.Zero(t, r.Packets.Headers, "no header is lost")
		if safe {
			require.Zero(t, r.Drops.Queue)
			require.Zero(t, r.Timeouts)
			require.Equal(t, r.Packets.Trimmed, r.Packets.Retransmitted)
			continue
		}
		require.Positive(t, r.Drops.Queue, "acknowledgements")
		require.Positive(t, r.Timeouts)
	}
}

// Spraying alone: not one packet is repeated, where a transport that takes reordering for loss repeats many.
func TestDCPSpray(t *testing.T) {
	g := leafSpine(4, 8, 8, 100*units.Gbit, 100*units.Gbit, units.Microsecond)
	c := dcpConfig(t, dcp.Config{})
	c.Routing.Mode, c.Trim.Threshold = Random, 0 // endless queues
	s := build(t, g, c, permutation(32, 2*units.MB, 1))
	s.Step(1e7)
	require.True(t, s.Done())
	require.Zero(t, s.Result().Packets.Retransmitted)
	require.Zero(t, s.Result().Packets.Trimmed)
}

// Headers are lost, too, and links lose packets: the timer repairs both, in both ways of tracking.
func TestDCPTimeouts(t *testing.T) {
	for _, track := range []dcp.Track{dcp.Counter, dcp.Bitmap} {
		c := dcpConfig(t, dcp.Config{Track: track, Message: 50, RTO: 200 * units.Microsecond, Retries: 20})
		c.Trim.ControlLimit, c.Trim.Weight = 2*units.KB, 0.1
		c.Faults = []Fault{{Link: 4, Loss: netsim.Loss{Drop: 1e-3}}}
		s := build(t, star(5, 100*units.Gbit, units.Microsecond), c, nil)
		flows, err := workload.Incast([]int{0, 1, 2, 3, 4}, 4, 4, 300*units.KB, 0, 1)
		require.NoError(t, err)
		require.NoError(t, s.AddFlows(flows))
		s.Run(des.Span(10 * units.Second))
		require.True(t, s.Done())
		r := s.Result()
		require.Positive(t, r.Packets.Headers)
		require.Positive(t, r.Drops.Wire)
		require.Greater(t, r.Packets.Retransmitted, r.Packets.Trimmed, "timeouts repeat whole messages")
	}
}

// Forced trims of one flow cost what they cut off: goodput is (1−p) of the line (figure 17).
func TestDCPForced(t *testing.T) {
	for _, p := range []float64{1e-3, 1e-2, 5e-2} {
		c := dcpConfig(t, dcp.Config{})
		c.Forced = p
		s := build(t, star(2, 100*units.Gbit, units.Microsecond), c, []workload.Flow{{Src: 0, Dst: 1, Size: 50 * units.MB}})
		s.Step(1e7)
		require.True(t, s.Done())
		f := s.Flow(0)
		goodput := float64(f.Size) * 1.048 * 8 / (float64(f.Received-f.Start) / 1e12) / 100e9
		t.Logf("p = %g: %.4f of the line", p, goodput)
		require.InEpsilon(t, 1-p, goodput, 0.02)
	}
}
