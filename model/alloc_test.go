// SPDX-License-Identifier: Apache-2.0

//go:build !race

package model

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

func TestSamplesDoNotAllocate(t *testing.T) {
	tr := paperLink(128*units.MiB, 1e-2)
	for _, s := range allSchemes {
		src, sample := newSource(tr), writer(s, tr)
		for range 1000 { // grow the scratch
			sample(src)
		}
		require.Zero(t, testing.AllocsPerRun(1000, func() { sample(src) }), "%+v", s)
	}
}
