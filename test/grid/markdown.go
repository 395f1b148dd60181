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
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/internal/result"
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
	return result.WriteFile(path, []byte(text))
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

// A loss is a row of the tables.
type loss struct{ burst, drop float64 }

func lossOf(r *gridResult) loss { return loss{r.Link.Burst, r.Link.Drop} }

func (l loss) compare(o loss) int {
	return cmp.Or(cmp.Compare(l.burst, o.burst), cmp.Compare(l.drop, o.drop))
}

func (l loss) String() string {
	text := "0"
	if l.drop > 0 {
		text = strings.Replace(strconv.FormatFloat(l.drop, 'e', -1, 64), "e-0", "e-", 1)
	}
	if l.burst > 1 {
		text += ", bursts"
	}
	return text
}

// A spot is where on a grid a result of a scheme is.
type spot struct {
	scheme string
	loss   loss
	size   units.Bytes
}

// A sheet is the results of one grid, in the order of its tables.
type sheet struct {
	losses  []loss        // rows
	sizes   []units.Bytes // columns
	schemes []string      // adaptive first
	at      map[spot]*gridResult
	cold    []*gridResult
}

func newSheet(results []*gridResult) *sheet {
	s := &sheet{at: map[spot]*gridResult{}}
	for _, r := range results {
		if r.Warmup == 0 {
			s.cold = append(s.cold, r)
			continue
		}
		s.at[spot{r.Reliability, lossOf(r), r.SizeBytes}] = r
		s.losses = append(s.losses, lossOf(r))
		s.sizes = append(s.sizes, r.SizeBytes)
		switch {
		case slices.Contains(s.schemes, r.Reliability):
		case r.Reliability == "adaptive":
			s.schemes = slices.Insert(s.schemes, 0, r.Reliability)
		default:
			s.schemes = append(s.schemes, r.Reliability)
		}
	}
	slices.SortFunc(s.losses, loss.compare)
	s.losses = slices.Compact(s.losses)
	slices.Sort(s.sizes)
	s.sizes = slices.Compact(s.sizes)
	slices.SortStableFunc(s.cold, func(a, b *gridResult) int { return lossOf(a).compare(lossOf(b)) })
	return s
}

// tables makes the tables of one grid: all schemes, then what there is of adaptive only.
func tables(results []*gridResult) string {
	var out bytes.Buffer
	s := newSheet(results)
	s.sideBySide(&out)
	if slices.Contains(s.schemes, "adaptive") {
		s.codes(&out)
		s.againstGoals(&out)
	}
	if len(s.cold) > 0 {
		s.coldStarts(&out)
	}
	return out.String()
}

// sideBySide has a row for each scheme, or for several that are alike in all that is printed.
func (s *sheet) sideBySide(w *bytes.Buffer) {
	heads := []string{"drop rate", "scheme"}
	for _, size := range s.sizes {
		heads = append(heads, size.String())
	}
	head(w, heads...)
	for _, l := range s.losses {
		var names, rows []string
		for _, scheme := range s.schemes {
			var cells []string
			for _, size := range s.sizes {
				cells = append(cells, times(s.at[spot{scheme, l, size}]))
			}
			text := strings.Join(cells, " | ")
			if i := slices.Index(rows, text); i >= 0 {
				names[i] += ", " + scheme
			} else {
				names, rows = append(names, scheme), append(rows, text)
			}
		}
		for i := range rows {
			row(w, l.String(), names[i], rows[i])
		}
	}
}

// times are the average and, in brackets, the 99th percentile over the ideal.
func times(r *gridResult) string {
	switch {
	case r == nil:
		return ""
	case r.Reliability == "adaptive":
		return fmt.Sprintf("%.4f ± %.4f (%.4f)", r.OverIdeal.Avg, r.OverIdeal.CI95, r.OverIdeal.P99)
	}
	return fmt.Sprintf("%.3f (%.3f)", r.OverIdeal.Avg, r.OverIdeal.P99)
}

// samples999 is how many samples it takes to say what the 99.9th percentile is.
const samples999 = 5000

// codes has adaptive's m. Its k is that of the column's head, or said in the cell.
func (s *sheet) codes(w *bytes.Buffer) {
	title, heads := "`adaptive`: m of its last transfer", []string{"drop rate"}
	rows := make([][]string, len(s.losses))
	for _, size := range s.sizes {
		k := 0
		for i, l := range s.losses {
			r := s.at[spot{"adaptive", l, size}]
			if r == nil {
				rows[i] = append(rows[i], "")
				continue
			}
			k = cmp.Or(k, r.Params.K)
			text := strconv.Itoa(r.Params.M)
			if r.Params.K != k {
				text += fmt.Sprintf(", k = %d", r.Params.K)
			}
			if r.Iterations >= samples999 {
				title = "`adaptive`: m of its last transfer, and in brackets the 99.9th percentile"
				text += fmt.Sprintf(" (%.4f)", r.OverIdeal.P999)
			}
			rows[i] = append(rows[i], text)
		}
		heads = append(heads, fmt.Sprintf("%v, k = %d", size, k))
	}
	fmt.Fprintf(w, "\n%s.\n", title)
	head(w, heads...)
	for i, l := range s.losses {
		row(w, append([]string{l.String()}, rows[i]...)...)
	}
}

// others are the schemes that adaptive must not be worse than.
var others = []string{"sr-nack", "ec-mds", "ec-xor"}

// againstGoals says at how many points adaptive meets its goals, and which is the nearest to missing one or misses most.
func (s *sheet) againstGoals(w *bytes.Buffer) {
	points, met, compared, fine := 0, 0, 0, 0
	most, worst := -1.0, ""
	for _, l := range s.losses {
		for _, size := range s.sizes {
			r := s.at[spot{"adaptive", l, size}]
			if r == nil {
				continue
			}
			points++
			share, what := goalOf(r).nearest(r)
			if share <= 1 {
				met++
			}
			if share > most {
				most, worst = share, fmt.Sprintf("%s (%v, %v)", what, size, l)
			}
			if best := s.bestOther(l, size); best != nil {
				compared++
				if notWorse(r, best) {
					fine++
				}
			}
		}
	}
	fmt.Fprintf(w, "\n`adaptive` against its goals: %d of %d points met, worst %s.\n", met, points, worst)
	if compared > 0 {
		fmt.Fprintf(w, "Not more than 2 %% worse than the best of sr-nack, ec-mds and ec-xor on average, within the 95 %% confidence\n"+
			"intervals: %d of %d.\n", fine, compared)
	}
}

func (s *sheet) bestOther(l loss, size units.Bytes) (best *gridResult) {
	for _, scheme := range others {
		if r := s.at[spot{scheme, l, size}]; r != nil && (best == nil || r.OverIdeal.Avg < best.OverIdeal.Avg) {
			best = r
		}
	}
	return best
}

// coldStarts has a column for each result: a grid has them of one scheme and size.
func (s *sheet) coldStarts(w *bytes.Buffer) {
	first := s.cold[0]
	fmt.Fprintf(w, "\nCold: the first transfer of a connection, each on one of its own; `%s`, %v, n = %d.\n",
		first.Reliability, first.SizeBytes, first.Iterations)
	heads, cells := []string{"drop rate"}, []string{"average (p99)"}
	for _, r := range s.cold {
		heads, cells = append(heads, lossOf(r).String()), append(cells, times(r))
	}
	head(w, heads...)
	row(w, cells...)
}

// head begins a table.
func head(w *bytes.Buffer, cells ...string) {
	fmt.Fprintln(w)
	row(w, cells...)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(cells)))
}

func row(w *bytes.Buffer, cells ...string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}
