// SPDX-License-Identifier: Apache-2.0

package model

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Ring Allreduce: the paper's section 5.3, and its appendix C, whose text isn't available, derived
// anew.
//
// N datacenters reduce a buffer in 2N-2 stages. In each, every datacenter writes a segment of Size/N
// to its right neighbour. Stage s of datacenter i starts when it has finished its own stage s-1
// and its left neighbour's has arrived:
//
//	T(s,i) = max(T(s-1,i), T(s-1,i-1)) + X(s,i),  T(0,i) = 0,
//
// with independent write completion times X, and the collective is done at max_i T(2N-2,i). The sum
// of X along any chain of dependencies is a lower bound; the chain of one datacenter's own stages
// has 2N-2 of them, and the maximum's expectation is at least that of any of its arguments:
//
//	E[T] ≥ (2N-2) · E[X].
//
// So the reliability cost of a stage, E[X] less the ideal, is paid 2N-2 times at least. As in the
// paper a stage takes the whole write, acknowledgement included, and reducing costs nothing.

// MaxDatacenters bounds a [Ring].
const MaxDatacenters = 1024

// A Ring is a ring Allreduce.
type Ring struct {
	Datacenters int // 2 to MaxDatacenters
	Scheme      Scheme
}

func (r Ring) segment(t Transfer) (Transfer, error) {
	if r.Datacenters < 2 || r.Datacenters > MaxDatacenters {
		return t, operr.New("predict", "completion time", "%w: %d datacenters, allowed 2 to %d", ErrRange, r.Datacenters, MaxDatacenters)
	}
	n := units.Bytes(r.Datacenters)
	t.Size = (t.Size + n - 1) / n
	if all := t.Rate.Time(t.Size); all > MaxInjection/units.Duration(r.stages()) {
		return t, operr.New("predict", "completion time", "%w: %d segments of %v take more than a year at %v: use a higher rate, a smaller size or fewer datacenters", ErrRange, r.stages(), t.Size, t.Rate)
	}
	return t, validate(r.Scheme, t)
}

func (r Ring) stages() int { return 2*r.Datacenters - 2 }

// Simulate draws completion times of the collective, whose buffer is t.Size, as the function
// [Simulate] does.
func (r Ring) Simulate(t Transfer, o Options) (*Result, error) {
	t, err := r.segment(t)
	if err != nil {
		return nil, err
	}
	writes := float64(r.stages() * r.Datacenters)
	if err := o.validate(writes * (1 + float64(t.Units())*float64(t.Drop))); err != nil {
		return nil, err
	}
	return o.run(t, func() func(*source) float64 {
		write := writer(r.Scheme, t)
		now, next := make([]float64, r.Datacenters), make([]float64, r.Datacenters)
		return func(src *source) float64 { return r.sample(write, src, now, next) }
	}), nil
}

func (r Ring) sample(write func(*source) float64, src *source, now, next []float64) float64 {
	clear(now)
	for range r.stages() {
		left := now[len(now)-1]
		for i, own := range now {
			next[i] = max(own, left) + write(src)
			left = own
		}
		now, next = next, now
	}
	done := now[0]
	for _, t := range now {
		done = max(done, t)
	}
	return done
}

// Bound returns the lower bound of the collective's expected completion time, (2N-2)·E[X].
func (r Ring) Bound(t Transfer) (units.Duration, error) {
	t, err := r.segment(t)
	if err != nil {
		return 0, err
	}
	mean, err := Mean(r.Scheme, t)
	return toDuration(float64(r.stages()) * float64(mean)), err
}

// Ideal returns the collective's completion time without loss.
func (r Ring) Ideal(t Transfer) (units.Duration, error) {
	t, err := r.segment(t)
	return units.Duration(r.stages()) * t.Ideal(), err
}
