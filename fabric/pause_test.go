// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestPauseUnderWayCounts: a run that is looked at while a class is paused tells of that time, too.
func TestPauseUnderWayCounts(t *testing.T) {
	g := star(2, 100*units.Gbit, units.Microsecond)
	g.Links[1].Rate = units.Gbit
	s := build(t, g, Config{Buffer: Buffer{Size: 256 * units.KiB, PFC: true, Shift: 1}}, []workload.Flow{{Src: 0, Dst: 1, Size: units.MiB}})
	for s.Result().Pauses == 0 {
		s.Step(1)
	}
	begun := s.Now()
	s.Run(begun + 10*micro)
	require.Zero(t, s.Result().Resumes)
	require.Equal(t, 10*micro, s.Result().PauseTime)
	for s.Result().Resumes == 0 {
		s.Step(1)
	}
	require.Equal(t, s.Now()-begun, s.Result().PauseTime)
}
