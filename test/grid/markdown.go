// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
)

// writeMarkdown writes a table for each loss: a row for each size, and for each scheme
// the average, 99th and 99.9th percentile over the ideal.
func writeMarkdown(path string, results []*result) error {
	var b bytes.Buffer
	type key struct{ drop, burst float64 }
	var losses []key
	tables := map[key][]*result{}
	for _, r := range results {
		k := key{r.Link.Drop, r.Link.Burst}
		if tables[k] == nil {
			losses = append(losses, k)
		}
		tables[k] = append(tables[k], r)
	}
	for _, k := range losses {
		fmt.Fprintf(&b, "### Grid %s, drop rate %g", results[0].Grid, k.drop)
		if k.burst > 1 {
			fmt.Fprintf(&b, " in bursts of mean %g", k.burst)
		}
		fmt.Fprint(&b, "\n\n| scheme | size | transfers | average | ± 95 % | p50 | p99 | p99.9 | k, m |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
		for _, r := range tables[k] {
			o := r.OverIdeal
			fmt.Fprintf(&b, "| %s | %v | %d | %.4f | %.4f | %.4f | %.4f | %s | %s |\n",
				r.Reliability, r.SizeBytes, r.Iterations, o.Avg, o.CI95, o.P50, o.P99, r.p999(), r.code())
		}
		fmt.Fprintln(&b)
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// p999 is the 99.9th percentile, which takes 5000 samples to say.
func (r *result) p999() string {
	if r.Iterations < 5000 {
		return "–"
	}
	return fmt.Sprintf("%.4f", r.OverIdeal.P999)
}

func (r *result) code() string {
	if r.Params.K == 0 {
		return ""
	}
	return fmt.Sprintf("%d, %d", r.Params.K, r.Params.M)
}
