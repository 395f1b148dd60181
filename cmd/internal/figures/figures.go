// SPDX-License-Identifier: Apache-2.0

// Package figures draws figures: SVG, PNG and CSV with the same look.
//
// [Build] computes those of the SDR-RDMA paper (SC '25) that follow from the completion-time model: 3,
// 9, 10, 11, 12, 13 and the lower panel of 15, with the same axes. Figure 11 runs encoders on this
// machine, so its numbers are this machine's; all others are functions of the samples and the seed. A
// [Link] is the same for any link, a [Chart] draws data that another program computed. [Figure.Write]
// and [Figure.WriteFile] store them.
package figures

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Config says how to compute figures.
type Config struct {
	Samples  int    // Monte-Carlo samples a point
	Seed     uint64 // of the samples
	Threads  int    // 0 means GOMAXPROCS
	Progress io.Writer
}

// A Figure is ready to be written.
type Figure struct {
	Name     string // "figure9", the name of its files
	Title    string
	Subtitle string // link, probabilities and what the lines are

	panels [][]*panel // rows of columns
	legend []key
	height float64 // of a row of panels, in inches
	width  float64 // of a column, in inches; 0: as usual
}

var builders = map[string]func(*run) *Figure{
	"3": figure3, "9": figure9, "10": figure10, "11": figure11, "12": figure12, "13": figure13, "15": figure15,
}

// Names returns the figures that there are, in the paper's order.
func Names() []string { return []string{"3", "9", "10", "11", "12", "13", "15"} }

// Build computes the figure of that name.
func Build(name string, cfg Config) (*Figure, error) {
	build, ok := builders[name]
	if !ok {
		return nil, fmt.Errorf("no figure %q: there are %s", name, strings.Join(Names(), ", "))
	}
	r := &run{Config: cfg, passes: 100}
	f := build(r)
	if r.err != nil {
		return nil, fmt.Errorf("figure %s: %w", name, r.err)
	}
	f.Name = "figure" + name
	return f, nil
}

// all returns the panels, row by row.
func (f *Figure) all() []*panel { return slices.Concat(f.panels...) }
