// SPDX-License-Identifier: Apache-2.0

//go:build !race

// Sampling under the race detector is for TestFiguresAreReproducible.

package figures

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/model"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestLink(t *testing.T) {
	l := Link{
		Name: "link", Subtitle: "10 Gbit/s", Schemes: []model.Scheme{sr, ours}, Size: units.MiB, Drop: 1e-3,
		Sizes: [2]units.Bytes{units.MiB, 3 * units.MiB}, Drops: [2]float64{1e-4, 2e-3},
		Transfer: func(size units.Bytes, drop float64) model.Transfer { return paperLink(size, drop) },
	}
	f, err := l.Figure(Config{Samples: 50, Seed: 1})
	require.NoError(t, err)
	all := f.all()
	require.Len(t, all, 4)
	require.Equal(t, 1.0505, all[1].y.max, "the right panels are the left ones' lower end")
	require.True(t, all[1].y.linear)
	for i, last := range []float64{2e-3, 2e-3, float64(3 * units.MiB), float64(3 * units.MiB)} {
		require.Len(t, all[i].lines, 4, "average and tail of two schemes")
		points := all[i].lines[0].points
		require.InEpsilon(t, last, points[len(points)-1].x, 1e-9, "both ends of a range are drawn")
	}
	path := filepath.Join(t.TempDir(), "x.png")
	require.NoError(t, f.WriteFile(path))
	requirePNG(t, path)
	require.ErrorContains(t, f.WriteFile("x.pdf"), ".svg, .png, .csv")

	l.Drops[0] = 0
	_, err = l.Figure(Config{})
	require.ErrorContains(t, err, "above 0")
}

// An axis says what it spans also where no power of ten, or of two times its beginning, lies in it.
func TestShortAxesSayWhatTheySpan(t *testing.T) {
	l := Link{
		Schemes: []model.Scheme{sr}, Size: 3 * units.MiB, Drop: 5e-4, Sizes: [2]units.Bytes{64 * units.MiB, 65 * units.MiB}, Drops: [2]float64{5e-4, 6e-4},
		Transfer: func(size units.Bytes, drop float64) model.Transfer { return paperLink(size, drop) },
	}
	labels := func() (all []string) {
		f, err := l.Figure(Config{Samples: 5})
		require.NoError(t, err)
		for _, row := range f.panels {
			for _, tick := range row[0].x.ticks {
				if tick.Label != "" && tick.Value >= row[0].x.min && tick.Value <= row[0].x.max {
					all = append(all, tick.Label)
				}
			}
		}
		return all
	}
	require.Equal(t, []string{"0.0005", "0.0006", "64 MiB", "65 MiB"}, labels())
	l.Sizes[1], l.Drops = 256*units.MiB, [2]float64{5e-4, 2e-2}
	require.Equal(t, []string{"1e-3", "1e-2", "64 MiB", "128 MiB", "256 MiB"}, labels())
}

// A point with many drops draws fewer samples of them.
func TestLinkThinsSamples(t *testing.T) {
	r := &run{Config: Config{Samples: 10_000, Seed: 1}, enough: enoughDrops}
	require.Equal(t, 10_000, r.simulate(sr, paperLink(units.MiB, 1e-3)).Samples())
	require.Equal(t, fewestSamples, r.simulate(sr, paperLink(64*units.GiB, 0.1)).Samples())
}
