// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// A sweep is a parameter that each point has another value of. The zero value is none.
type sweep struct {
	key    string
	values []string // as the key's flag takes them
}

// A sweepable parameter. Its key is that of its flag, too.
type sweepable struct {
	// step is what each value is larger by than the one before, if the user doesn't say how many there are.
	step float64
	// number reads a value, and text writes one that number has read.
	number func(text string) (float64, error)
	text   func(v float64) string
	// set is the key's flag, of is the value that a task has, and get a result's.
	set func(p *params, text string) error
	of  func(t *task) float64
	get func(r *result.Result) float64
	// hide leaves it out of what is said of a link; nil for what is none of the link's.
	hide func(l *link)
	// shown is a value for people, and label an axis of values.
	shown func(v float64) string
	label string
}

var (
	halfDecade = math.Sqrt(10)
	plainText  = func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }
	shortText  = func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) } // fits a column
	wholeText  = func(v float64) string { return strconv.Itoa(int(math.Round(v))) }
)

func bytesText(v float64) string { return units.Bytes(v).String() }

func bytesNumber(text string) (float64, error) {
	n, err := units.ParseBytes(text)
	return float64(n), err
}

func wholeNumber(text string) (float64, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q: want a whole number", text)
	}
	return float64(n), nil
}

// sweepables are the keys that --sweep takes.
var sweepables = map[string]*sweepable{
	"drop": {
		step: halfDecade, number: func(text string) (p float64, err error) { return p, probability{&p}.Set(text) }, text: plainText,
		set:  func(p *params, text string) error { return probability{&p.Link.Drop}.Set(text) },
		of:   func(t *task) float64 { return t.params.Link.Drop },
		get:  func(r *result.Result) float64 { return linkOf(r).Drop },
		hide: func(l *link) { l.Drop = 0 }, shown: shortText, label: "drop probability of a packet",
	},
	"size": {
		step: 2, number: bytesNumber, text: wholeText,
		set:   func(p *params, text string) error { return p.Sizes.Set(text) },
		of:    func(t *task) float64 { return float64(t.size) },
		get:   func(r *result.Result) float64 { return float64(r.SizeBytes) },
		shown: bytesText, label: "size of a transfer",
	},
	"unit": {
		step: 2, number: bytesNumber, text: wholeText,
		set:   func(p *params, text string) error { return p.Unit.Set(text) },
		of:    func(t *task) float64 { return float64(t.params.Unit) },
		get:   func(r *result.Result) float64 { return float64(r.Chunks.UnitBytes) },
		shown: bytesText, label: "repair unit",
	},
	"channels": {
		step: 2, number: wholeNumber, text: wholeText,
		set:   func(p *params, text string) (err error) { p.Channels, err = strconv.Atoi(text); return err },
		of:    func(t *task) float64 { return float64(t.params.Channels) },
		get:   func(r *result.Result) float64 { return float64(r.Channels) },
		shown: wholeText, label: "channels",
	},
	"inflight": {
		step: 2, number: wholeNumber, text: wholeText,
		set:   func(p *params, text string) (err error) { p.Inflight, err = strconv.Atoi(text); return err },
		of:    func(t *task) float64 { return float64(t.params.Inflight) },
		get:   func(r *result.Result) float64 { return float64(r.Inflight) },
		shown: wholeText, label: "transfers under way",
	},
	"rtt": {
		step: 2, number: func(text string) (float64, error) { d, err := units.ParseDuration(text); return float64(d), err },
		text: func(v float64) string { return wholeText(v) + "ns" },
		set:  func(p *params, text string) (err error) { p.Link.RTT, err = units.ParseDuration(text); return err },
		of:   func(t *task) float64 { return float64(t.params.Link.RTT) },
		get:  func(r *result.Result) float64 { return float64(linkOf(r).RTTNs) },
		hide: func(l *link) { l.RTT = 0 }, shown: func(v float64) string { return units.FormatDuration(units.Duration(v)) }, label: "round-trip time",
	},
	"rate": {
		step: 2, number: func(text string) (float64, error) { v, err := units.ParseRate(text); return float64(v), err },
		text: func(v float64) string { return wholeText(v) + "bit" },
		set:  func(p *params, text string) error { return p.Link.Rate.Set(text) },
		of:   func(t *task) float64 { return float64(t.params.Link.Rate) },
		get:  func(r *result.Result) float64 { return float64(linkOf(r).RateBps) },
		hide: func(l *link) { l.Rate = 0 }, shown: func(v float64) string { return units.Rate(v).String() }, label: "rate of the link",
	},
}

// linkOf is the emulated link, one without properties if there is none.
func linkOf(r *result.Result) result.Link {
	if r.Link == nil {
		return result.Link{}
	}
	return *r.Link
}

// Set reads "drop=1e-6..1e-2", "drop=1e-6..1e-2/5" or "drop=0,1e-4,1e-2".
func (s *sweep) Set(text string) error {
	key, list, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	k := sweepables[key]
	if !ok || k == nil {
		return fmt.Errorf("%q: want KEY=FROM..TO, KEY=FROM..TO/NUMBER or KEY=A,B,C with one of the keys %s", text, strings.Join(sweepKeys(), ", "))
	}
	if s.key != "" && s.key != key {
		return fmt.Errorf("one parameter is swept at a time: %s, or %s", s.key, key)
	}
	values := strings.Split(list, ",")
	if from, to, ranged := strings.Cut(list, ".."); ranged {
		var err error
		if values, err = k.between(from, to); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	for _, v := range values {
		if _, err := k.number(v); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	*s = sweep{key, values}
	return nil
}

// Type names the kind of flag.
func (s *sweep) Type() string { return "KEY=A..B" }

func (s *sweep) String() string {
	if s.key == "" {
		return ""
	}
	return s.key + "=" + strings.Join(s.values, ",")
}

func sweepKeys() []string {
	var keys []string
	for k := range sweepables {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// between are values from one to another, of which each is the same times larger than the one before.
func (k *sweepable) between(from, to string) ([]string, error) {
	to, count, counted := strings.Cut(to, "/")
	a, err := k.number(from)
	if err != nil {
		return nil, err
	}
	b, err := k.number(to)
	if err != nil {
		return nil, err
	}
	if !(a > 0 && b > a) {
		return nil, fmt.Errorf("a range goes from more than zero to something larger: write single values like 0,%s", to)
	}
	n := int(math.Floor(math.Log(b/a)/math.Log(k.step)+1e-9)) + 1
	step := k.step
	if counted {
		if n, err = strconv.Atoi(count); err != nil || n < 2 || n > maxPoints {
			return nil, fmt.Errorf("/%s: want 2 to %d values", count, maxPoints)
		}
		step = math.Pow(b/a, 1/float64(n-1))
	}
	var values []string
	for i := range n {
		values = append(values, k.text(a*math.Pow(step, float64(i))))
	}
	if last := k.text(b); values[n-1] != last {
		values = append(values, last)
	}
	return slices.Compact(values), nil
}

// is reports whether key is what is swept.
func (s *sweep) is(key string) bool { return s != nil && s.key == key }

// describe says what link is emulated at all points.
func (s *sweep) describe(l *link) string {
	const below = "as below"
	switch {
	case s == nil || s.key == "":
		return l.describe()
	case s.key == "rtt": // which is said first
		return l.describeWith(below)
	case sweepables[s.key].hide == nil:
		return l.describe() + ", " + s.key + " " + below
	}
	shown := *l
	sweepables[s.key].hide(&shown)
	return shown.describeWith(shown.roundTrip(), s.key+" "+below)
}

// A task is what a point measures.
type task struct {
	params *params
	scheme string
	size   units.Bytes
}

// tasks are all points of a run in order.
func (p *params) tasks(s *sweep) ([]task, error) {
	plans := []*params{p}
	if s.key != "" {
		plans = nil
		for _, v := range s.values {
			q := *p
			if err := sweepables[s.key].set(&q, v); err != nil {
				return nil, fmt.Errorf("--sweep %s=%s: %w", s.key, v, err)
			}
			if err := q.check(); err != nil {
				return nil, fmt.Errorf("--sweep %s=%s: %w", s.key, v, err)
			}
			plans = append(plans, &q)
		}
	}
	if n := len(plans) * len(p.Schemes) * len(p.Sizes); n > maxPoints {
		return nil, fmt.Errorf("%d points: at most %d can be measured in one run", n, maxPoints)
	}
	var all []task
	for _, scheme := range p.Schemes {
		for _, plan := range plans {
			for _, size := range plan.Sizes {
				all = append(all, task{plan, scheme, size})
			}
		}
	}
	return all, nil
}

// allSizes are those of perftest's -a.
func allSizes() usage.Sizes {
	var all usage.Sizes
	for n := units.Bytes(2); n <= 8*units.MiB; n *= 2 {
		all = append(all, n)
	}
	return all
}
