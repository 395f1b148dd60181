// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine draws: TestFiguresAreReproducible shows the race detector those that sample.

package figures

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each file is well formed, has text, and is neither blank nor huge.
func TestFilesAreWellFormed(t *testing.T) {
	for _, name := range Names() {
		r := &run{Config: Config{Samples: 8, Seed: 3}, passes: 1}
		f := builders[name](r)
		require.NoError(t, r.err)
		f.Name = "figure" + name
		paths, err := f.Write(t.TempDir())
		require.NoError(t, err)
		requireSVG(t, paths[0], f.Title)
		requirePNG(t, paths[1])
		requireCSV(t, paths[2], len(f.all()))
		for _, p := range f.all() {
			require.NotEmpty(t, p.x.label, name)
			require.NotEmpty(t, p.y.label, name)
		}
	}
	_, err := Build("4", Config{})
	require.ErrorContains(t, err, "there are 3, 9, 10")
}
