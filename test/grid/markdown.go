// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// writeMarkdown writes the tables of each grid to a file, in the place that its marks
// show; other text of the file stays. A new file has the tables only.
func writeMarkdown(path string, results []*gridResult) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := string(data)
	for _, name := range []string{"A", "B"} {
		var mine []*gridResult
		for _, r := range results {
			if r.Grid == name {
				mine = append(mine, r)
			}
		}
		if len(mine) > 0 {
			text = place(text, "grid "+name, tables(mine))
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// place puts body between the marks of a name, or at the end with new marks.
func place(text, name, body string) string {
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	i := strings.Index(text, begin)
	j := strings.Index(text, end)
	if i < 0 || j < i {
		return text + begin + body + end
	}
	return text[:i+len(begin)] + body + text[j:]
}

// A spot is where on a grid a result is.
type spot struct {
	burst, drop float64
	size        units.Bytes
}

func spotOf(r *gridResult) spot { return spot{r.Link.Burst, r.Link.Drop, r.SizeBytes} }

// tables makes the tables of one grid: all schemes, then adaptive against its goals.
func tables(results []*gridResult) string {
	var schemes []string
	var spots []spot
	at := map[spot]map[string]*gridResult{}
	var cold []*gridResult
	for _, r := range results {
		if r.Warmup == 0 {
			cold = append(cold, r)
			continue
		}
		if !slices.Contains(schemes, r.Reliability) {
			schemes = append(schemes, r.Reliability)
		}
		s := spotOf(r)
		if at[s] == nil {
			at[s] = map[string]*gridResult{}
			spots = append(spots, s)
		}
		at[s][r.Reliability] = r
	}
	slices.SortStableFunc(spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(a.burst, b.burst), cmp.Compare(a.drop, b.drop), cmp.Compare(a.size, b.size))
	})
	var out bytes.Buffer
	sideBySide(&out, schemes, spots, at)
	againstGoals(&out, spots, at)
	coldStarts(&out, cold)
	return out.String()
}

func sideBySide(w *bytes.Buffer, schemes []string, spots []spot, at map[spot]map[string]*gridResult) {
	fmt.Fprint(w, "\nAverage and, in brackets, 99th percentile of completion times over the ideal.\n\n| drop rate, burst | size |")
	for _, s := range schemes {
		fmt.Fprintf(w, " %s |", s)
	}
	fmt.Fprint(w, "\n|---|---:|", strings.Repeat("---:|", len(schemes)), "\n")
	for _, s := range spots {
		fmt.Fprintf(w, "| %s | %v |", lossText(s), s.size)
		for _, name := range schemes {
			if r := at[s][name]; r != nil {
				fmt.Fprintf(w, " %.3f (%.3f) |", r.OverIdeal.Avg, r.OverIdeal.P99)
			} else {
				fmt.Fprint(w, " |")
			}
		}
		fmt.Fprintln(w)
	}
}

func lossText(s spot) string {
	if s.burst > 1 {
		return fmt.Sprintf("%g, mean %g", s.drop, s.burst)
	}
	return fmt.Sprintf("%g", s.drop)
}

// others are the schemes that adaptive must not be worse than.
var others = []string{"sr-nack", "ec-mds", "ec-xor"}

func againstGoals(w *bytes.Buffer, spots []spot, at map[spot]map[string]*gridResult) {
	var rows bytes.Buffer
	points, met := 0, 0
	for _, s := range spots {
		r := at[s]["adaptive"]
		if r == nil {
			continue
		}
		points++
		g := goalOf(r)
		verdict := "missed"
		if g.met(r) {
			verdict = "met"
			met++
		}
		o := r.OverIdeal
		fmt.Fprintf(&rows, "| %s | %v | %d | %.4f ± %.4f | %.4f | %s | %d, %d | %s: %s | %s |\n",
			lossText(s), s.size, r.Iterations, o.Avg, o.CI95, o.P99, r.p999(), r.Params.K, r.Params.M, g, verdict, compared(r, at[s]))
	}
	if points == 0 {
		return
	}
	fmt.Fprintf(w, "\n`adaptive` against its goals: %d of %d points met. The last column compares averages with the best of sr-nack, ec-mds\n"+
		"and ec-xor: not more than 2 %% worse, within the 95 %% confidence intervals.\n\n", met, points)
	fmt.Fprint(w, "| drop rate, burst | size | transfers | average | p99 | p99.9 | k, m of the last | goal | beside the best other |\n",
		"|---|---:|---:|---:|---:|---:|---:|---|---|\n")
	w.Write(rows.Bytes())
}

func compared(r *gridResult, here map[string]*gridResult) string {
	var best *gridResult
	for _, name := range others {
		if o := here[name]; o != nil && (best == nil || o.OverIdeal.Avg < best.OverIdeal.Avg) {
			best = o
		}
	}
	if best == nil {
		return ""
	}
	verdict := "worse"
	if notWorse(r, best) {
		verdict = "ok"
	}
	return fmt.Sprintf("%s %.4f: %s", best.Reliability, best.OverIdeal.Avg, verdict)
}

func coldStarts(w *bytes.Buffer, cold []*gridResult) {
	if len(cold) == 0 {
		return
	}
	fmt.Fprint(w, "\nCold: the first transfer of a connection, each on one of its own.\n\n",
		"| scheme | drop rate, burst | size | transfers | average | p99 |\n|---|---|---:|---:|---:|---:|\n")
	for _, r := range cold {
		o := r.OverIdeal
		fmt.Fprintf(w, "| %s | %s | %v | %d | %.4f ± %.4f | %.4f |\n",
			r.Reliability, lossText(spotOf(r)), r.SizeBytes, r.Iterations, o.Avg, o.CI95, o.P99)
	}
}

// p999 is the 99.9th percentile, which takes 5000 samples to say.
func (r *gridResult) p999() string {
	if r.Iterations < 5000 {
		return "–"
	}
	return fmt.Sprintf("%.4f", r.OverIdeal.P999)
}
