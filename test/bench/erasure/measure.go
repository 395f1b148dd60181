// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"time"
)

// A result is what the rounds of a work came to: rates in GB/s.
type result struct {
	work
	isal, ours rates
}

// rates are the best round and the middle one.
type rates struct{ best, median float64 }

// ratio compares the best rounds: other load only ever slows down.
func (r *result) ratio() float64 { return r.ours.best / r.isal.best }

func (r *result) missed() bool {
	if r.absolute {
		return r.ours.best < r.atLeast
	}
	return r.ratio() < r.atLeast
}

func measureAll(p *peer, rounds int) (results []result, err error) {
	for _, w := range works() {
		r, err := measure(p, w, rounds)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// measure times both, turn by turn.
func measure(p *peer, w work, rounds int) (r result, err error) {
	r.work = w
	o, err := newOurs(&w)
	if err != nil {
		return r, err
	}
	var isal, own []time.Duration
	for range rounds {
		d, err := p.pass(&w)
		if err != nil {
			return r, err
		}
		isal = append(isal, d)
		if d, err = o.pass(); err != nil {
			return r, err
		}
		own = append(own, d)
	}
	r.isal, r.ours = ratesOf(&w, isal), ratesOf(&w, own)
	return r, nil
}

func ratesOf(w *work, d []time.Duration) rates {
	slices.Sort(d)
	rate := func(d time.Duration) float64 { return float64(w.bytes()) / d.Seconds() / 1e9 }
	return rates{best: rate(d[0]), median: rate(d[len(d)/2])}
}
