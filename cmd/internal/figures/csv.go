// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"encoding/csv"
	"io"
	"strconv"

	"github.com/sdr-rdma/go-sdr/internal/result"
)

type writerTo interface {
	WriteTo(w io.Writer) (int64, error)
}

func writeFile(path string, from writerTo) error {
	var buf bytes.Buffer
	if _, err := from.WriteTo(&buf); err != nil {
		return err
	}
	return result.WriteFile(path, buf.Bytes())
}

// csv returns all points of a figure in one table, a row each. The confidence interval is empty where
// a value wasn't sampled.
func (f *Figure) csv() writerTo {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	_ = w.Write([]string{"panel", "series", "x_quantity", "x", "y_quantity", "y", "y_low", "y_high"})
	for _, p := range f.all() {
		if p.heat != nil {
			p.heat.rows2csv(w, p)
		}
		for _, l := range p.lines {
			for _, pt := range l.points {
				row(w, p, l.name, pt)
			}
		}
	}
	w.Flush() // a bytes.Buffer never fails
	return &buf
}

func row(w *csv.Writer, p *panel, series string, pt point) {
	n := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 7, 64)
	}
	_ = w.Write([]string{p.title, series, p.x.quantity, n(pt.x), p.y.quantity, strconv.FormatFloat(pt.y, 'g', 7, 64), n(pt.low), n(pt.high)})
}

// rows2csv writes a row for each cell, with the table's row as the series.
func (h *heat) rows2csv(w *csv.Writer, p *panel) {
	for i, cells := range h.cells {
		for j, cell := range cells {
			cell.x = h.xs[j]
			row(w, p, h.rows[i], cell)
		}
	}
}
