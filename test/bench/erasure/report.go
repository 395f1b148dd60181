// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

const intro = `# Erasure coding

How fast are the codes of ` + "`ec` and `adaptive`" + ` beside ISA-L, Intel's library in C and assembly? Written by ` + "`go run ./test/bench/erasure -o docs/results/coding.md`" + ` on %s.

- CPU: %s; features that matter here: %s; one core.
- %s, ISA-L %s (libisal-dev of the distribution), gcc -O2.
- Rates are GB/s of user data in CPU time, of the best round (in brackets: of the middle one); both run
  in turns on the same core. Other load on the machine shares caches and memory and only ever slows a
  round down. "Memory" is a working set of 128 MiB of data, "cache" one group, again and again.
- ISA-L's decoding has its coefficients ready, except where each group was lost another way: there it
  inverts the matrix and expands its tables for each group. Ours always computes its coefficients.

| what | unit | working set | ISA-L | ours | ratio | goal | |
|---|---|---|---|---|---|---|---|
`

// report prints the table and returns how many goals were missed.
func report(out io.Writer, results []result, isal string, now time.Time) (missed int, err error) {
	model, features := cpu()
	if _, err = fmt.Fprintf(out, intro, now.Format("2006-01-02"), model, features, runtime.Version(), isal); err != nil {
		return 0, err
	}
	for i := range results {
		r := &results[i]
		goal, verdict := "–", ""
		if r.atLeast > 0 {
			goal, verdict = r.goal(), "met"
			if r.missed() {
				verdict = "**missed**"
				missed++
			}
		}
		_, err = fmt.Fprintf(out, "| %s | %d KiB | %s | %.1f (%.1f) | %.1f (%.1f) | %.2f | %s | %s |\n",
			r.what, r.unit/kib, r.set(), r.isal.best, r.isal.median, r.ours.best, r.ours.median, r.ratio(), goal, verdict)
		if err != nil {
			return missed, err
		}
	}
	return missed, nil
}

func (w *work) goal() string {
	if w.absolute {
		return fmt.Sprintf("≥ %g GB/s", w.atLeast)
	}
	return fmt.Sprintf("≥ %g×", w.atLeast)
}

func (w *work) set() string {
	if w.groups == 1 {
		return "cache"
	}
	return "memory"
}

// cpu describes the processor.
func cpu() (model, features string) {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown", "unknown"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), ":")
		switch strings.TrimSpace(name) {
		case "model name":
			model = strings.TrimSpace(value)
		case "flags":
			all := strings.Fields(value)
			var some []string
			for _, x := range []string{"avx2", "avx512f", "avx512bw", "gfni"} {
				if slices.Contains(all, x) {
					some = append(some, x)
				}
			}
			features = strings.Join(some, ", ")
		}
	}
	return model, features
}
