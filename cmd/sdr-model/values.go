// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/model"
)

// sizeList names the kind of flag as the other lists and ranges of this program are named.
type sizeList struct{ *usage.Sizes }

func (sizeList) Type() string { return "size[,size]" }

// kilometers is a flag value such as 3750km.
type kilometers model.Kilometers

func (k *kilometers) String() string {
	if *k == 0 {
		return ""
	}
	return fmt.Sprintf("%gkm", float64(*k))
}

func (k *kilometers) Type() string { return "km" }

func (k *kilometers) Set(s string) error {
	num, ok := strings.CutSuffix(strings.TrimSpace(s), "km")
	v, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if !ok || err != nil {
		return fmt.Errorf("distance %q: write it like 3750km", s)
	}
	*k = kilometers(v)
	return nil
}

// probabilities is a flag value: one probability, or a range low..high that stands for its ends and
// the powers of ten between them.
type probabilities []float64

func (p *probabilities) String() string {
	if len(*p) == 0 {
		return ""
	}
	first, last := (*p)[0], (*p)[len(*p)-1]
	if first == last {
		return short(first)
	}
	return short(first) + ".." + short(last)
}

func (p *probabilities) Type() string { return "p[..p]" }

func (p *probabilities) Set(s string) error {
	low, high, isRange := strings.Cut(s, "..")
	if !isRange {
		high = low
	}
	a, err := parseProbability(low)
	if err != nil {
		return err
	}
	b, err := parseProbability(high)
	if err != nil {
		return err
	}
	if a > b {
		return fmt.Errorf("range %q: the lower probability comes first", s)
	}
	if isRange && a == 0 && b > 0 {
		return fmt.Errorf("range %q: powers of ten can't start at 0; start at 1e-8, say", s)
	}
	*p = probabilities{a}
	for e := math.Floor(math.Log10(a)) + 1; a > 0 && math.Pow10(int(e)) < b*(1-1e-9); e++ {
		if v := math.Pow10(int(e)); v > a*(1+1e-9) {
			*p = append(*p, v)
		}
	}
	if b > a {
		*p = append(*p, b)
	}
	return nil
}

func parseProbability(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%") // as sdr-perf takes it
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	// Below 1e-15 no message that fits the model ever loses a unit.
	if err != nil || !(v == 0 || v >= 1e-15 && v <= model.MaxDrop) {
		return 0, fmt.Errorf("probability %q: allowed 0 and 1e-15 to %g, written like 1e-5 or 0.1%%, or a range like 1e-6..1e-3", s, model.MaxDrop)
	}
	return v, nil
}

// short prints a probability like 1e-5 or 1.6e-4.
func short(p float64) string {
	if p >= 0.01 || p == 0 {
		return strconv.FormatFloat(p, 'g', 3, 64)
	}
	s := strconv.FormatFloat(p, 'e', 2, 64)
	mantissa, exponent, _ := strings.Cut(s, "e-")
	mantissa = strings.TrimSuffix(strings.TrimRight(mantissa, "0"), ".")
	return mantissa + "e-" + strings.TrimLeft(exponent, "0")
}
