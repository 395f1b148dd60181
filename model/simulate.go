// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Scheme is one of this package's reliability schemes: [SR], [EC] or [Adaptive].
type Scheme interface {
	// Name is the scheme's name in reports and flags, such as "ec-mds".
	Name() string
	check(Transfer) error
	// sampler returns a state to draw samples with, for one goroutine. t has been validated.
	sampler(t Transfer) sampler
	// meanDone returns the expectation of sampler.sample in closed or integrated form.
	meanDone(t Transfer) float64
}

// A sampler draws the time, in nanoseconds after the start of the first injection, at which the
// last unit that the receiver needed was injected. It reaches the receiver half an RTT later, and
// the acknowledgement the sender another half.
type sampler interface {
	sample(src *source) float64
}

// Defaults and limits of [Options].
const (
	DefaultSamples = 10_000
	MaxSamples     = 10_000_000
	maxWork        = 1e12 // drops in all samples: several core-hours
)

// Options say how to simulate. The zero value is usable.
type Options struct {
	Samples int    // 0 means DefaultSamples, at most MaxSamples
	Seed    uint64 // the same seed gives the same result, for any number of threads
	Threads int    // 0 means GOMAXPROCS
}

// block is how many samples share a random stream: the unit of work of a thread.
const block = 64

// Simulate draws completion times. It is safe for concurrent use. It fails with [ErrRange] for a
// parameter out of range, or when the samples would hold more drops than hours of computation
// could draw.
func Simulate(s Scheme, t Transfer, o Options) (*Result, error) {
	if err := validate(s, t); err != nil {
		return nil, err
	}
	if err := o.validate(float64(t.Units()) * float64(t.Drop)); err != nil {
		return nil, err
	}
	return o.run(t, func() func(*source) float64 { return writer(s, t) }), nil
}

// writer returns a function that draws completion times, for one goroutine.
func writer(s Scheme, t Transfer) func(*source) float64 {
	r, rtt := s.sampler(t), t.rtt()
	return func(src *source) float64 {
		src.begin()
		done := r.sample(src)
		if src.control == 0 {
			return done + rtt
		}
		start := src.controlDelay(rtt) // without START the receiver can't tell that it has all
		return max(done, start) + rtt + src.controlDelay(rtt)
	}
}

// Mean returns the expected completion time from the scheme's closed form, without sampling. The
// package comment says where it agrees with [Simulate] within 5 %. Bursts have no closed form: it fails
// with [ErrRange].
func Mean(s Scheme, t Transfer) (units.Duration, error) {
	if err := validateMean(s, t); err != nil {
		return 0, err
	}
	done := s.meanDone(t)
	return toDuration(done + t.rtt() + meanControl(t, done)), nil
}

func validate(s Scheme, t Transfer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return s.check(t)
}

// validateMean is validate for closed forms.
func validateMean(s Scheme, t Transfer) error {
	if err := validate(s, t); err != nil {
		return err
	}
	if t.bursty() {
		return operr.New("predict", "completion time", "%w: bursts of mean %g packets have no closed form: use Simulate", ErrRange, t.Burst)
	}
	return nil
}

func (o *Options) validate(drops float64) error {
	if o.Samples == 0 {
		o.Samples = DefaultSamples
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.Samples < 1 || o.Samples > MaxSamples {
		return operr.New("predict", "completion time", "%w: %d samples, allowed 1 to %d", ErrRange, o.Samples, MaxSamples)
	}
	if o.Threads < 1 {
		return operr.New("predict", "completion time", "%w: %d threads, allowed 1 and more", ErrRange, o.Threads)
	}
	if drops*float64(o.Samples) > maxWork {
		return operr.New("predict", "completion time", "%w: %d samples of %.3g drops each would take hours, allowed %.3g drops in all", ErrRange, o.Samples, drops, maxWork)
	}
	return nil
}

// run draws o.Samples values. Each block has its own random stream and place in the result, so it
// doesn't matter which thread draws it.
func (o Options) run(t Transfer, newSampler func() func(*source) float64) *Result {
	values := make([]float64, o.Samples)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(o.Threads, (o.Samples+block-1)/block) {
		wg.Go(func() {
			src, sample := newSource(t), newSampler()
			for {
				n := int(next.Add(1) - 1)
				if n*block >= len(values) {
					return
				}
				src.seed(o.Seed, uint64(n))
				for i := n * block; i < min((n+1)*block, len(values)); i++ {
					values[i] = sample(src)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(values)
	return newResult(values)
}

// A Result holds the samples of one [Simulate]. It doesn't change: safe for concurrent use.
type Result struct {
	sorted   []float64 // nanoseconds
	mean, sd float64
}

// An Estimate is a value with its 95 % confidence interval.
type Estimate struct{ Value, Low, High units.Duration }

func newResult(sorted []float64) *Result {
	r := &Result{sorted: sorted}
	n := float64(len(sorted))
	for _, v := range sorted {
		r.mean += v / n
	}
	for _, v := range sorted {
		r.sd += (v - r.mean) * (v - r.mean) / max(n-1, 1)
	}
	r.sd = math.Sqrt(r.sd)
	return r
}

// Samples returns how many samples were drawn.
func (r *Result) Samples() int { return len(r.sorted) }

// z95 is the 97.5th percentile of the normal distribution.
const z95 = 1.959964

// Mean returns the average. Its interval is the normal one: for a rare, long tail that no sample
// has hit, it is too narrow.
func (r *Result) Mean() Estimate {
	half := z95 * r.sd / math.Sqrt(float64(len(r.sorted)))
	return Estimate{toDuration(r.mean), toDuration(r.mean - half), toDuration(r.mean + half)}
}

// Quantile returns the q-quantile, 0 to 1. Its interval comes from the binomial distribution of
// ranks and assumes nothing about the shape; it ends at the extremes where samples are too few. Of
// fewer than 1/(1-q) samples the quantile itself is the longest, and too short as a rule.
func (r *Result) Quantile(q float64) Estimate {
	n := float64(len(r.sorted))
	half := z95 * math.Sqrt(n*q*(1-q))
	return Estimate{r.rank(n * q), r.rank(n*q - half), r.rank(n*q + half + 1)}
}

func (r *Result) rank(x float64) units.Duration {
	i := int(math.Ceil(x)) - 1
	return toDuration(r.sorted[min(max(i, 0), len(r.sorted)-1)])
}

func toDuration(ns float64) units.Duration {
	return units.Duration(min(math.Round(ns), math.MaxInt64/2))
}
