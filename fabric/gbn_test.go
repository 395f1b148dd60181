// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestGoBackNInStep: eight senders without a congestion control, whose packets come to a full queue in step with each other, so that of each the one
// that is missing is dropped whenever it comes: they get through all the same, though their receivers ask for it again and again.
func TestGoBackNInStep(t *testing.T) {
	var flows []workload.Flow
	for i, f := range []struct {
		size  units.Bytes
		start units.Instant
	}{{1093774, 0}, {472614, 0}, {66769, 898}, {630785, 174}, {1082125, 0}, {1006085, 2404}, {753653, 1996}, {833331, 1104}} {
		flows = append(flows, workload.Flow{Src: 1 + i, Dst: 0, Size: f.size, Start: f.start, Class: 1})
	}
	naks := rc.Config{NakInterval: 1553, NakDelay: 1326, AckEvery: 4}
	s := build(t, star(9, 100*units.Gbit, 60), Config{Transport: naks.Factory(), MTU: 4096, Header: 64, Buffer: Buffer{QueueLimit: 48670}}, flows)
	s.Run(des.Time(30_000) * micro)
	require.True(t, s.Done(), "%+v", s.Result())
	t.Logf("%d ms", s.now/(1000*micro))
}
