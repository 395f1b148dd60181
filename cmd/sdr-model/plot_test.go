// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestPlotOfWhatIsPlanned: what can be planned can be drawn, although the picture shows more drop probabilities and sizes.
func TestPlotOfWhatIsPlanned(t *testing.T) {
	for _, drop := range []float64{0, 1e-15, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9} {
		for packets := int64(1); packets <= 1<<10; packets *= 2 {
			if model.PacketDrop(drop).Unit(packets) > model.MaxDrop {
				continue
			}
			r := dropRange([]float64{drop}, packets)
			require.Less(t, r[0], r[1])
			require.LessOrEqual(t, float64(model.PacketDrop(r[1]).Unit(packets)), model.MaxDrop, "drop %g, %d packets", drop, packets)
			if drop > 0 {
				require.LessOrEqual(t, r[0], drop)
				require.GreaterOrEqual(t, r[1], drop, "%d packets", packets)
			}
		}
	}
	for _, chunk := range []units.Bytes{1, 1 << 10, 1 << 11, model.MaxUnit} {
		for _, size := range []units.Bytes{1, units.MiB, model.MaxUnits, model.MaxSize} {
			if size/chunk > model.MaxUnits {
				continue
			}
			for _, rate := range []units.Rate{model.MinRate, model.MaxRate} {
				if rate.Time(size) <= model.MaxInjection {
					require.LessOrEqual(t, rate.Time(sizeRange(usage.Sizes{size}, rate, 1, chunk)[1]), model.MaxInjection)
				}
			}
			r := sizeRange(usage.Sizes{size}, model.MaxRate, 1, chunk)
			require.LessOrEqual(t, r[1], model.MaxSize)
			require.LessOrEqual(t, int64(r[1]/chunk), int64(model.MaxUnits), "%v, chunk %v", size, chunk)
			require.GreaterOrEqual(t, r[1], size)
		}
	}
	file := filepath.Join(t.TempDir(), "link.svg")
	_, err := execute(t, "plan", "--chunk", "256KiB", "--drop", "1e-3", "--size", "1MiB", "--samples", "5", "--plot", file)
	require.NoError(t, err)
	require.FileExists(t, file)
}
