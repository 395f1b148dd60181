// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/units"
)

// A header-only packet that carries 64 PSNs has 252 bytes for 64 packets: fifteen senders that heed nothing leave data 0.94 of the
// line instead of 0.235, and 255 lose no header where r is 13.4 and the paper's condition, r > N-1, would allow 14.
func TestCarriedPSNs(t *testing.T) {
	for _, tc := range []struct {
		n             int
		kept          units.Bytes
		weight        float64
		long          units.Duration
		least, atMost float64
	}{{15, trimKept, 0.06, 500 * units.Microsecond, 0.85, 0.945}, {255, 82, 26, 40 * units.Microsecond, 0, 1}} {
		goodput, lost, s := incast(t, tc.n, tc.weight, tc.long, Trim{Header: tc.kept, ControlLimit: units.MB, Carry: MostPSNs})
		r := s.Result()
		t.Logf("%d senders, r = %.1f: data %.4f of the line, %d trimmed, %g of the headers lost", tc.n, (trimMTU+trimHeaders)/float64(tc.kept), goodput, r.Packets.Trimmed, lost)
		require.Zero(t, lost)
		require.GreaterOrEqual(t, goodput, tc.least)
		require.LessOrEqual(t, goodput, tc.atMost)
	}
	_, lost, _ := incast(t, 255, 26, 40*units.Microsecond, Trim{Header: 82, ControlLimit: units.MB})
	require.Greater(t, lost, 0.5, "headers that carry nothing")
}

// DCP's ends take carried PSNs for what they are: each packet that was trimmed is repeated once, through several switches, where
// memory is short, and where links lose header-only packets with all that they carry.
func TestCarriedPSNsOfDCP(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		c := dcpConfig(t, dcp.Config{Message: 50, Retries: 20, RTO: 200 * units.Microsecond})
		c.CheckEvery = 500
		c.Trim.Carry, c.Trim.Weight, c.Trim.Threshold = MostPSNs, 0.02, 20*units.KB
		c.Buffer = Buffer{Size: 2 * units.MB, Alpha: 64, Reserve: -1}
		if lossy {
			c.Trim.ControlLimit = 20 * units.KB
		}
		s := build(t, leafSpine(2, 16, 4, 100*units.Gbit, 100*units.Gbit, units.Microsecond), c, nil)
		var flows []workload.Flow
		for i := range 28 {
			flows = append(flows, workload.Flow{Src: i, Dst: 31, Size: 300*units.KB + units.Bytes(i)*777})
		}
		require.NoError(t, s.AddFlows(flows))
		s.Run(des.Span(10 * units.Second))
		require.True(t, s.Done())
		s.Drain()
		require.NoError(t, s.Check())
		r := s.Result()
		headers := s.sentBytes - s.trimmedBytes
		t.Logf("lossy %v: %d trimmed, %d repeated, %d headers lost, %d bytes on wires", lossy, r.Packets.Trimmed, r.Packets.Retransmitted, r.Packets.Headers, headers)
		require.Greater(t, r.Packets.Trimmed, uint64(5000))
		if lossy {
			require.Positive(t, r.Packets.Headers)
			require.Positive(t, r.Timeouts)
			continue
		}
		require.Equal(t, r.Packets.Trimmed, r.Packets.Retransmitted, "each trim is repeated once")
		require.Zero(t, r.Packets.Dropped)
		require.Zero(t, r.Timeouts)
	}
}
