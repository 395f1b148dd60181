// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"image/color"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// The palette is Okabe and Ito's, which stays distinct for colour-blind readers. Markers and dashes
// differ too, so that the lines can be told apart in black and white.
var (
	black      = color.RGBA{A: 255}
	grey       = color.RGBA{R: 110, G: 110, B: 110, A: 255}
	lightGrey  = color.RGBA{R: 225, G: 225, B: 225, A: 255}
	vermillion = color.RGBA{R: 213, G: 94, A: 255}
	orange     = color.RGBA{R: 230, G: 159, A: 255}
	skyBlue    = color.RGBA{R: 86, G: 180, B: 233, A: 255}
	blue       = color.RGBA{G: 114, B: 178, A: 255}
	green      = color.RGBA{G: 158, B: 115, A: 255}
	purple     = color.RGBA{R: 204, G: 121, B: 167, A: 255}
)

// A look is how a line is drawn.
type look struct {
	color color.Color
	glyph draw.GlyphDrawer // nil for a line without markers
	dash  []vg.Length
	width vg.Length
}

var (
	dashed = []vg.Length{5, 3}
	dotted = []vg.Length{1.5, 2.5}

	dashDotted = []vg.Length{6, 2, 1.5, 2}

	srLook       = look{vermillion, draw.CircleGlyph{}, nil, 1.6}
	nackLook     = look{orange, draw.BoxGlyph{}, nil, 1.6}
	xorLook      = look{skyBlue, draw.TriangleGlyph{}, nil, 1.6}
	mdsLook      = look{blue, draw.PyramidGlyph{}, nil, 1.6}
	adaptiveLook = look{green, draw.CrossGlyph{}, nil, 1.6}
	limitLook    = look{grey, nil, dotted, 1.2}
)

// numbered are looks for lines that aren't schemes, in order.
var numbered = []look{
	{vermillion, draw.CircleGlyph{}, nil, 1.6}, {orange, draw.BoxGlyph{}, nil, 1.6}, {green, draw.CrossGlyph{}, nil, 1.6},
	{blue, draw.PyramidGlyph{}, nil, 1.6}, {purple, draw.TriangleGlyph{}, nil, 1.6}, {black, draw.RingGlyph{}, nil, 1.6},
}

// lookOf is the look of line n: dashed, or in dashes and dots, where the colours begin again.
func lookOf(n int) look {
	l := numbered[n%len(numbered)]
	l.dash = [][]vg.Length{nil, dashed, dashDotted}[n/len(numbered)%3]
	return l
}

// tail is the look of a scheme's 99.9th percentile: its average's, dashed.
func (l look) tail() look {
	l.dash, l.width = dashed, 1.1
	return l
}

func (l look) line() draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: l.width, Dashes: l.dash}
}

func sans(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = 3 // bold, in the scale of golang.org/x/image/font
	}
	return f
}
