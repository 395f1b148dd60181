// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"
)

// All figures but 11, which measures, are functions of the samples and the seed.
func TestFiguresAreReproducible(t *testing.T) {
	for _, name := range Names() {
		if name == "11" {
			continue
		}
		var first string
		for _, threads := range []int{1, 4} {
			f, err := Build(name, Config{Samples: 8, Seed: 3, Threads: threads})
			require.NoError(t, err)
			var buf bytes.Buffer
			_, err = f.csv().WriteTo(&buf)
			require.NoError(t, err)
			if first == "" {
				first = buf.String()
			}
			require.Equal(t, first, buf.String(), "figure %s with %d threads", name, threads)
		}
	}
}

func requireSVG(t *testing.T, path, title string) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), title)
	for d := xml.NewDecoder(bytes.NewReader(data)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func requirePNG(t *testing.T, path string) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	img, err := png.Decode(file)
	require.NoError(t, err)
	inked, b := 0, img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y += 3 {
		for x := b.Min.X; x < b.Max.X; x += 3 {
			if r, g, b, _ := img.At(x, y).RGBA(); r+g+b < 3*0xd000 {
				inked++
			}
		}
	}
	require.Greater(t, inked, b.Dx()*b.Dy()/9/200, path)
	require.LessOrEqual(t, b.Dx(), 2000)
}

func requireCSV(t *testing.T, path string, panels int) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, r := range rows[1:] {
		require.Len(t, r, 8)
		require.NotEmpty(t, r[5], "every point has a value")
		seen[r[0]] = true
	}
	require.Len(t, seen, panels)
}

// A legend breaks into rows that fit, and loses no entry.
func TestLegendFits(t *testing.T) {
	all := keys([]curve{srCurve, nackCurve, xorCurve, mdsCurve, adaptiveCurve})
	for width := vg.Length(50); width < 1000; width *= 1.7 {
		entries := 0
		for _, row := range legendRows(all, width) {
			used := vg.Length(-keyGap)
			for _, k := range row {
				used += keyWidth(k) + keyGap
			}
			require.True(t, used <= width || len(row) == 1, "%v in %v", used, width)
			entries += len(row)
		}
		require.Equal(t, len(all), entries)
	}
	require.Len(t, legendRows(all[:2], keyWidth(all[0])+keyGap+keyWidth(all[1])), 1, "no gap behind the last")
}

// The palette is ordered: red above 1, blue below, deeper further away.
func TestHeatColours(t *testing.T) {
	h := &heat{max: 13}
	luma := func(v float64) uint32 {
		r, g, b, _ := h.color(v).RGBA()
		return (3*r + 6*g + b) / 10
	}
	for _, pair := range [][2]float64{{1, 1.5}, {1.5, 3}, {3, 6}, {6, 12}, {1, 0.9}, {0.9, 0.8}, {0.8, 0.6}} {
		require.Greater(t, luma(pair[0]), luma(pair[1]), "%v", pair)
	}
	for v, want := range map[float64]string{0.82: "0.82", 1.0001: "1", 0.9999: "1", 1.04: "1.04", 3.96: "4.0", 12.7: "13"} {
		require.Equal(t, want, ratio(v))
	}
	require.Equal(t, "1e-5", trimExponent("1e-05"))
	require.False(t, strings.Contains(trimExponent("1.6e-04"), "e-0"))
}
