// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChart(t *testing.T) {
	c := Chart{
		Name: "a:b", Title: "A title", Subtitle: "what it is",
		Panels: []ChartPanel{
			{
				Title: "one", X: ChartAxis{Label: "load", Quantity: "load", Linear: true, Ticks: []float64{0.3, 0.5}},
				Y:     ChartAxis{Label: "slowdown", Quantity: "slowdown"},
				Lines: []Series{{Name: "ours", X: []float64{0.3, 0.5}, Y: []float64{2, 20}}, {Name: "paper", Paper: true, X: []float64{0.5}, Y: []float64{25}}},
			},
			{
				Title: "spread", X: ChartAxis{Label: "x", Linear: true}, Y: ChartAxis{Label: "y"},
				Lines: []Series{{Name: "mean", X: []float64{1, 2}, Y: []float64{10, 20}, Low: []float64{9, 11}, High: []float64{12, 40}}},
			},
			{Title: "none", X: ChartAxis{Label: "x"}, Y: ChartAxis{Label: "y"}},
		},
	}
	f := c.Figure()
	require.Less(t, f.panels[0][0].x.min, 0.3)
	require.Greater(t, f.panels[0][0].y.max, 25.0)
	require.Equal(t, f.panels[0][0].lines[0].look.color, f.panels[0][0].lines[1].look.color, "the paper's line has the colour of ours")
	require.Greater(t, f.panels[0][1].y.max, 40.0, "bars are within the axis")
	f.Name = "chart"
	paths, err := f.Write(t.TempDir())
	require.NoError(t, err)
	requireSVG(t, paths[0], c.Title)
	requirePNG(t, paths[1])
	var b bytes.Buffer
	_, err = f.csv().WriteTo(&b)
	require.NoError(t, err)
	require.Contains(t, b.String(), "one,paper,load,0.5,slowdown,25,,\n")
	require.Contains(t, b.String(), "spread,mean,,2,,20,11,40\n")

}
