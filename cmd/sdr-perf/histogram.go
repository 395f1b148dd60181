// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A histogram holds times with three significant digits, and their sum, least and largest exactly. A run of a
// day takes as much memory as one of a second.
type histogram struct {
	n        int
	sum      float64
	sumOfSq  float64
	min, max units.Duration
	buckets  *hdrhistogram.Histogram
}

// histogramDigits are the significant digits of a time.
const histogramDigits = 3

func newHistogram() *histogram {
	return &histogram{buckets: hdrhistogram.New(1, int64(maxDuration), histogramDigits)}
}

// add notes a time of at most maxDuration.
func (h *histogram) add(d units.Duration) {
	d = min(max(d, 0), maxDuration)
	_ = h.buckets.RecordValue(int64(d)) // its only error is a value out of range
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.n++
	h.sum += float64(d)
	h.sumOfSq += float64(d) * float64(d)
}

// merge adds what another holds.
func (h *histogram) merge(o *histogram) {
	if o.n == 0 {
		return
	}
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.n += o.n
	h.sum += o.sum
	h.sumOfSq += o.sumOfSq
	h.buckets.Merge(o.buckets)
}

// quantile is the time that a part of all don't exceed, as near as the digits allow.
func (h *histogram) quantile(percent float64) units.Duration {
	return min(max(units.Duration(h.buckets.ValueAtPercentile(percent)), h.min), h.max)
}

// mean is the average, 0 of nothing.
func (h *histogram) mean() float64 { return h.sum / float64(max(h.n, 1)) }

// stddev is the standard deviation of a sample.
func (h *histogram) stddev() float64 {
	if h.n < 2 {
		return 0
	}
	n := float64(h.n)
	return math.Sqrt(max(0, h.sumOfSq-h.sum*h.sum/n) / (n - 1))
}

// Of how many times a percentile is known: one of them is above it.
const (
	leastP90   = 10
	leastP99   = 100
	leastP999  = 1000
	leastP9999 = 10_000
)

// summary is what all of it comes down to; a percentile that isn't known is 0.
func (h *histogram) summary() result.Completion {
	if h.n == 0 {
		return result.Completion{}
	}
	known := func(percent float64, least int) units.Duration {
		if h.n < least {
			return 0
		}
		return h.quantile(percent)
	}
	return result.Completion{
		Avg: units.Duration(h.mean()), Stddev: units.Duration(h.stddev()), P50: h.quantile(50), P90: known(90, leastP90),
		P99: known(99, leastP99), P999: known(99.9, leastP999), P9999: known(99.99, leastP9999), Min: h.min, Max: h.max,
	}
}

// filled are the buckets that hold something, in order.
func (h *histogram) filled() []result.Bucket {
	list := []result.Bucket{}
	for _, b := range h.buckets.Distribution() {
		if b.Count > 0 {
			list = append(list, result.Bucket{UpTo: units.Duration(b.To), Count: b.Count})
		}
	}
	return list
}
