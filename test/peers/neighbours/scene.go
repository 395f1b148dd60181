// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/units"
)

// A scene is one run and what is asked of it.
type scene struct {
	part, name string
	link       link.Config // without Flows and Seed
	flows      []flow      // without addresses
	length     time.Duration
	judge      func(*outcome) *verdict
}

// addressed are the flows with their addresses.
func (s *scene) addressed() []flow {
	all := slices.Clone(s.flows)
	for i := range all {
		all[i].Sender, all[i].Receiver = senderOf(i), receiverOf(i)
	}
	return all
}

// A verdict is what was measured, in the order of the table's columns, and which bars were missed.
type verdict struct {
	Figures []figure `json:"figures"`
	Missed  []string `json:"missed"`
}

// A figure is a number with its name.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // seconds, bytes or a share
	text  string
}

func (v *verdict) share(name string, x float64) *verdict {
	v.Figures = append(v.Figures, figure{name, x, fmt.Sprintf("%.3f", x)})
	return v
}

func (v *verdict) percent(name string, x float64) *verdict {
	v.Figures = append(v.Figures, figure{name, x, fmt.Sprintf("%.2f %%", 100*x)})
	return v
}

func (v *verdict) count(name string, n uint64) *verdict {
	v.Figures = append(v.Figures, figure{name, float64(n), fmt.Sprint(n)})
	return v
}

func (v *verdict) time(name string, d time.Duration) *verdict {
	if d == never {
		v.Figures = append(v.Figures, figure{name, -1, "never"})
		return v
	}
	v.Figures = append(v.Figures, figure{name, d.Seconds(), units.FormatDuration(d)})
	return v
}

func (v *verdict) unless(met bool, bar string) *verdict {
	if !met {
		v.Missed = append(v.Missed, bar)
	}
	return v
}

const ms = time.Millisecond

var short, long = 2 * ms, 25 * ms

// scenes are all, in the order of the tables. Where the smallest buffer is that of more than one scene, only one of
// them is there.
func (p *plan) scenes() (all []*scene) {
	seen := map[string]bool{}
	for _, s := range slices.Concat(p.alone(), p.shared(), p.mixed(), p.rivals(), p.incast(), p.dcqcn(), p.changes(), p.misled()) {
		if !seen[s.part+s.name] {
			all = append(all, s)
		}
		seen[s.part+s.name] = true
	}
	return all
}

// ours is a flow of sdr.
func (p *plan) ours(rtt, start time.Duration) flow {
	return flow{Transport: p.scheme, Congestion: p.congestion, RTT: rtt, Start: start, Payload: p.payload()}
}

// leastBuffer is the smallest that a port is taken to have.
const leastBuffer = 64 * units.KiB

func (p *plan) product(rtt time.Duration) units.Bytes { return p.rate.Bytes(rtt) }

// through is the link with a buffer.
func (p *plan) through(buffer units.Bytes) link.Config {
	return link.Config{Rate: int64(p.rate), Queue: int(max(buffer, leastBuffer))}
}

// text is the link's name.
func (p *plan) text(rtt time.Duration, l link.Config) string {
	s := fmt.Sprintf("%v, %s, %v", p.rate, units.FormatDuration(rtt), units.Bytes(l.Queue))
	if l.Early.To != 0 {
		s += fmt.Sprintf(", marks from %v", units.Bytes(l.Early.From))
	}
	if l.Drop != 0 {
		s += fmt.Sprintf(", %g lost", l.Drop)
	}
	return s
}

// alone: one flow, from 2 s to 8 s after its start.
func (p *plan) alone() (all []*scene) {
	for _, rtt := range []time.Duration{short, long} {
		product := p.product(rtt)
		links := []link.Config{p.through(product / 10), p.through(product), p.through(4 * product), p.through(product)}
		links[3].Drop = 1e-2
		for _, l := range links {
			all = append(all, &scene{
				part: "Alone", name: p.text(rtt, l), link: l, flows: []flow{p.ours(rtt, 0)}, length: 8 * time.Second,
				judge: func(o *outcome) *verdict { return p.judgeAlone(o, l, rtt, units.Bytes(l.Queue) >= product) },
			})
		}
	}
	return all
}

func (p *plan) judgeAlone(o *outcome, l link.Config, rtt time.Duration, deep bool) *verdict {
	const from, to = startUp, 8 * time.Second
	r := o.total(from, to)
	use := o.use(p.rate, from, to)
	waste := o.waste()
	goodput := use * (1 - waste) / passed(r) / (1 - l.Drop)
	queue := wait(r)
	full := p.rate.Time(units.Bytes(l.Queue))
	v := new(verdict).share("of the link", use).share("less loss, repeats and parity", goodput).percent("dropped by the queue", part(r.Dropped, r.Packets)).
		percent("repeats and parity", waste).time("mean wait in the queue", queue)
	v.unless(goodput >= 0.93, "0.93 of the link").unless(part(r.Dropped, r.Packets) < 0.01, "1 % dropped").unless(2*queue < full, "half a buffer")
	return v.unless(!deep || 2*queue < rtt, "half a round trip")
}

// passed is what of the packets arrived. What got lost is no part of what left the queue, and waste counts its repeat as sent again: of all
// that was sent the rest is what was sent for the first time, and that arrives in the end.
func passed(r link.Record) float64 { return max(1-part(r.Dropped+r.Lost, r.Packets), 1e-6) }

// waste is what of sdr's packets wasn't sent for the first time, after the start-up.
func (o *outcome) waste() float64 {
	more, all := uint64(0), uint64(0)
	for _, x := range o.told {
		more += x.All.Again + x.All.Parity - x.StartUp.Again - x.StartUp.Parity
		all += x.All.Sent - x.StartUp.Sent
	}
	return part(more, max(all, more))
}

// spacing is how long after another a flow starts.
const spacing = 1200 * ms

// leastUse is what several flows have to use of the link: those that all send next to nothing share fairly, too.
const leastUse = 0.6

func (p *plan) together(part, name string, l link.Config, bar float64, ecn bool, rtts ...time.Duration) *scene {
	from := time.Duration(len(rtts)-1)*spacing + max(20*slices.Max(rtts), 3*time.Second)
	to := from + 6*time.Second
	s := &scene{part: part, name: fmt.Sprintf("%d, %s", len(rtts), name), link: l, length: to}
	for i, rtt := range rtts {
		f := p.ours(rtt, time.Duration(i)*spacing)
		f.ECN = ecn
		s.flows = append(s.flows, f)
	}
	s.judge = func(o *outcome) *verdict {
		r, worst, use := o.total(from, to), o.worstJain(from, to), o.use(p.rate, from, to)
		return new(verdict).share("worst Jain index of a second", worst).share("of the link", use).
			percent("dropped by the queue", partOf(r.Dropped, r)).percent("marked", partOf(r.Marked, r)).time("mean wait in the queue", wait(r)).
			unless(worst >= bar, fmt.Sprintf("Jain %v", bar)).unless(use >= leastUse, fmt.Sprintf("%v of the link", leastUse))
	}
	return s
}

func partOf(some uint64, r link.Record) float64 { return part(some, r.Packets) }

func (p *plan) shared() (all []*scene) {
	for _, rtt := range []time.Duration{short, long} {
		product := p.product(rtt)
		marking := p.through(product)
		marking.Early = link.Early{From: marking.Queue / 8, To: marking.Queue / 2, Most: 0.1}
		for _, n := range []int{2, 8} {
			for _, l := range []link.Config{p.through(product / 10), p.through(product), p.through(4 * product), marking} {
				all = append(all, p.together("Several flows, one each 1.2 s", p.text(rtt, l), l, 0.95, l.Early.To != 0, slices.Repeat([]time.Duration{rtt}, n)...))
			}
		}
	}
	return all
}

func (p *plan) mixed() (all []*scene) {
	l := p.through(p.product(long))
	for _, n := range []int{2, 8} {
		for _, pair := range [][]time.Duration{{short, long}, {long, short}} {
			name := fmt.Sprintf("%v, %v, first %v", p.rate, units.Bytes(l.Queue), pair[0])
			all = append(all, p.together("Round trips of 2 and 25 ms mixed", name, l, 0.8, false, slices.Repeat(pair, n/2)...))
		}
	}
	return all
}

// rivals: one flow beside one of TCP, over any 10 s from 5 s after the later start on.
func (p *plan) rivals() (all []*scene) {
	const late, from, to, bar = 2 * time.Second, 7 * time.Second, 20 * time.Second, 0.15
	for _, rtt := range []time.Duration{short, long} {
		for _, rival := range []string{"cubic", "bbr"} {
			for _, first := range []string{"ours", "TCP"} {
				l := p.through(p.product(rtt))
				flows := []flow{p.ours(rtt, 0), {Transport: rival, RTT: rtt}}
				if first == "ours" {
					flows[1].Start = late
				} else {
					flows[0].Start = late
				}
				all = append(all, &scene{
					part: "Beside one TCP flow, one product of buffer (at least 64 KiB)", name: fmt.Sprintf("TCP %s, %s, first %s", rival, p.text(rtt, l), first),
					link: l, flows: flows, length: to,
					judge: func(o *outcome) *verdict {
						us, them := o.leastShare(0, p.rate, 10*time.Second, from, to), o.leastShare(1, p.rate, 10*time.Second, from, to)
						r := o.sum(0, from, to)
						return new(verdict).share("least share over 10 s, ours", us).share("TCP's", them).percent("of ours dropped by the queue", partOf(r.Dropped, r)).
							time("mean wait in the queue", wait(r)).unless(us >= bar, "0.15 for us").unless(them >= bar, "0.15 for TCP")
					},
				})
			}
		}
	}
	return all
}

// incast: eight senders at once through a queue that marks beyond a threshold.
func (p *plan) incast() (all []*scene) {
	const rtt = 2 * ms
	const senders, settled, to = 8, 10 * rtt, 6 * time.Second
	const threshold = 64 * units.KiB
	l := p.through(2 * units.MiB)
	l.Early = link.Early{From: int(threshold), To: int(threshold), Most: 1}
	f := p.ours(rtt, 0)
	f.ECN = true
	return []*scene{{
		part: "Eight senders at once, ECN", name: p.text(rtt, l), link: l, flows: slices.Repeat([]flow{f}, senders), length: to,
		judge: func(o *outcome) *verdict {
			timeouts := uint64(0)
			for _, x := range o.told {
				timeouts += x.All.Timeouts
			}
			most, r := float64(o.total(settled, to).Most)/float64(threshold), o.total(0, to)
			return new(verdict).count("timeouts", timeouts).share("longest queue after 10 round trips, of the threshold", most).
				time("mean wait in the queue", wait(o.total(settled, to))).share("of the link", o.use(p.rate, settled, to)).
				percent("marked", partOf(r.Marked, r)).percent("dropped by the queue", partOf(r.Dropped, r)).
				unless(timeouts == 0, "no timeout").unless(most <= 2, "twice the threshold")
		},
	}}
}

// dcqcn: the controller of its paper at a two-hundredth of the paper's rate, with two hundred times its
// intervals, so that packets per interval, and with them the fixed point, are the paper's. Two processors carry that many packets of ten flows.
//
// Marks grow with the queue as the paper sets them, by 1 % in 195 kB, but go on to 10 %. There they jump from 1 % to all, and
// ten flows need 0.66 %: a swing beyond the end halves all of them at once, and the link stands idle.
// That is the ramp's, no property of the controllers (TestDCQCNFixedPoint of package fabric has both).
//
// A flow's rate wanders for seconds around the fixed point, so it is the mean of 40 s that is held against it, a fifth of a second of the paper's.
func (p *plan) dcqcn() (all []*scene) {
	const control = "dcqcn:sigcomm15,alpha=11ms,decrease=10ms,rise=11ms,ai=200kbit,hai=1mbit"
	const rate, rtt, payload = 200 * units.Mbit, 800 * time.Microsecond, units.KiB
	const from, to, bar = 10 * time.Second, 50 * time.Second, 0.1
	l := link.Config{Rate: int64(rate), Queue: int(4 * units.MiB), Early: link.Early{From: 5_000, To: 1_955_000, Most: 0.1}}
	for _, n := range []int{2, 10} {
		f := flow{Transport: "sr-nack", Congestion: control, RTT: rtt, ECN: true, Payload: payload, Told: rate}
		all = append(all, &scene{
			part: "DCQCN through a marking queue", name: fmt.Sprintf("%d flows, %v, marks from 5 to 1955 kB, at most 10 %%", n, rate), link: l,
			flows: slices.Repeat([]flow{f}, n), length: to,
			judge: func(o *outcome) *verdict {
				fair, worst := float64(rate)/float64(n), 0.0
				for i := range o.records {
					worst = max(worst, abs(float64(o.rate(i, from, to))/fair-1))
				}
				r := o.total(from, to)
				return new(verdict).percent("farthest rate from the fixed point", worst).share("of the link", o.use(rate, from, to)).
					percent("marked", partOf(r.Marked, r)).time("mean wait in the queue", wait(r)).percent("dropped by the queue", partOf(r.Dropped, r)).
					unless(worst <= bar, "10 %")
			},
		})
	}
	return all
}

func abs(x float64) float64 { return max(x, -x) }

const rateChanges = "The rate changes, one product of buffer"

// changes of the link while one flow uses it, one product of buffer.
func (p *plan) changes() (all []*scene) {
	for _, rtt := range []time.Duration{short, long} {
		rise := max(40*rtt, 3*time.Second)
		add := func(part, name string, length time.Duration, changes []link.Change, judge func(*outcome) *verdict) {
			l := p.through(p.product(rtt))
			l.Changes = changes
			all = append(all, &scene{
				part: part, name: p.text(rtt, l) + ", " + name, link: l,
				flows: []flow{p.ours(rtt, 0)}, length: length, judge: judge,
			})
		}
		full := int64(p.rate)
		add(rateChanges, "falls to a tenth and comes back", 18*time.Second, []link.Change{{At: 6 * time.Second, Rate: full / 10}, {At: 12 * time.Second, Rate: full}},
			func(o *outcome) *verdict {
				fall, back := o.reached(p.rate/10, window(rtt), 6*time.Second, 12*time.Second), o.reached(p.rate, window(rtt), 12*time.Second, 18*time.Second)
				return p.changed(o, fall, 10*rtt, back, rise)
			})
		add(rateChanges, "dark for 10 s", 20*time.Second, []link.Change{{At: 5 * time.Second, Rate: 0}, {At: 15 * time.Second, Rate: full}},
			func(o *outcome) *verdict {
				return p.changed(o, 0, 0, o.reached(p.rate, window(rtt), 15*time.Second, 20*time.Second), 10*rtt+250*ms)
			})
		add("The route changes, one product of buffer", "the round trip doubles and halves", 16*time.Second,
			[]link.Change{{At: 5 * time.Second, Rate: full, Delay: rtt}, {At: 10 * time.Second, Rate: full, Delay: rtt / 2}},
			func(o *outcome) *verdict {
				longer, back := o.use(p.rate, 5*time.Second+rise, 10*time.Second), o.use(p.rate, 10*time.Second+rise, 16*time.Second)
				r := o.total(0, 16*time.Second)
				return new(verdict).share("of the link, from 3 s after the first change", longer).share("from 3 s after the second", back).
					percent("dropped by the queue", partOf(r.Dropped, r)).time("mean wait in the queue", wait(r)).
					unless(longer >= inUse, "0.9 after the first").unless(back >= inUse, "0.9 after the second")
			})
	}
	slices.SortStableFunc(all, func(a, b *scene) int { return strings.Compare(a.part, b.part) })
	return all
}

// misled: one flow that was told ten times the link's rate.
func (p *plan) misled() (all []*scene) {
	for _, rtt := range []time.Duration{short, long} {
		l, f := p.through(p.product(rtt)), p.ours(rtt, 0)
		f.Told = 10 * p.rate
		all = append(all, &scene{
			part: "Told ten times the link's rate", name: p.text(rtt, l), link: l, flows: []flow{f}, length: 8 * time.Second,
			judge: func(o *outcome) *verdict { return p.judgeAlone(o, l, rtt, true) },
		})
	}
	return all
}

// window is over what a rate is looked at.
func window(rtt time.Duration) time.Duration { return max(100*ms, 2*rtt) }

func (p *plan) changed(o *outcome, first, firstBar, back, backBar time.Duration) *verdict {
	r := o.total(0, never/2)
	v := new(verdict).time("0.9 in use after the first change", first).time("bar", firstBar).time("after the second", back).time("its bar", backBar).
		percent("dropped by the queue", partOf(r.Dropped, r))
	return v.unless(first <= firstBar+link.Bin, "too late at first").unless(back <= backBar+link.Bin, "too late then")
}
