// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// A paths is a flag: the rate of each path of the emulated link, and when it dies, such as
// "100mbit,100mbit,10mbit,100mbit@2s". It is text so that links can be compared.
type paths string

// maxPaths is as many as a connection can have.
const maxPaths = 256

// split takes p apart. ends are 0 for paths that live.
func (p paths) split() (rates []units.Rate, ends []units.Duration, err error) {
	if p == "" {
		return nil, nil, nil
	}
	for _, text := range strings.Split(string(p), ",") {
		rate, end, dies := strings.Cut(text, "@")
		var r units.Rate
		if err := r.Set(rate); err != nil || r <= 0 {
			return nil, nil, fmt.Errorf("%q: want a rate for each path, such as 100mbit, and @2s behind one that dies after 2 s", text)
		}
		var d time.Duration
		if dies {
			if d, err = time.ParseDuration(end); err != nil || d <= 0 {
				return nil, nil, fmt.Errorf("%q: want a time behind @, such as 2s", text)
			}
		}
		rates, ends = append(rates, r), append(ends, d)
	}
	if len(rates) > maxPaths {
		return nil, nil, fmt.Errorf("%d paths: give at most %d", len(rates), maxPaths)
	}
	return rates, ends, nil
}

// carry is how long the paths take for n bytes from an instant on, counted from the link's beginning: each carries its
// rate until it dies. If all die before, it is the time until then.
func (p paths) carry(n units.Bytes, from units.Duration) units.Duration {
	rates, ends, _ := p.split() // checkPaths says what is wrong with them
	for at := from; ; {
		sum, next := units.Rate(0), units.Duration(units.Never)
		for i, end := range ends {
			if end == 0 || end > at {
				sum += rates[i]
			}
			if end > at {
				next = min(next, end)
			}
		}
		if sum == 0 {
			return at - from
		}
		if took := sum.Time(n); took <= next-at {
			return at + took - from
		}
		n -= sum.Bytes(next - at)
		at = next
	}
}

// dies reports whether a path does.
func (p paths) dies() bool { return strings.Contains(string(p), "@") }

// Set takes what split does.
func (p *paths) Set(text string) error {
	_, _, err := paths(text).split()
	*p = paths(text)
	return err
}

// Type names the kind of flag.
func (p *paths) Type() string { return "rates" }

func (p *paths) String() string { return string(*p) }

// checkPaths says what doesn't go with paths of their own rates, and what such can't be.
func (p *params) checkPaths() error {
	rates, _, err := p.Link.Paths.split()
	switch {
	case err != nil:
		return fmt.Errorf("--paths: %w", err)
	case len(rates) == 0:
		return nil
	case p.Link.Rate != 0:
		return fmt.Errorf("--paths gives each path a rate: leave out --rate")
	case p.Channels%len(rates) != 0:
		return fmt.Errorf("--paths has %d paths and --channels %d: each path carries as many channels as the others, so choose a multiple", len(rates), p.Channels)
	}
	return nil
}

// total is the link's rate, of all paths together; 0: no limit.
func (l *link) total() units.Rate { return l.config(0).TotalRate() }
