// SPDX-License-Identifier: Apache-2.0

// Command congestion judges a congestion controller in package bottleneck's network of one queue, in
// virtual time, and prints the table of docs/results/congestion.md: what was measured, the goal, and
// whether it was met.
//
//	go run ./test/congestion [-cc bbr] [-seed 1] [-busy] [-spacing 1.2s] [-only alone,shared,mixed,rivals,incast,changes,routes]
//
// -cc takes tcp-cubic and tcp-bbr, too, the TCP senders that the others are put beside: what they reach in the same scenes.
//
// Packets are 1500 bytes; rates, queues and losses count them whole. Receivers report as those of
// package reliability do, every 32nd of a round trip, but 100 µs to 5 ms apart. With -busy both hosts
// of each of our flows stall now and then, as they do where they share processors; the goals are those
// of hosts that don't, and show what is left of them.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/bottleneck"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	packet = 1500
	sec    = units.Instant(units.Second)
)

var (
	defaultRates = []units.Rate{units.Gbit, 200 * units.Mbit}
	rtts         = []units.Duration{400 * units.Microsecond, 2 * units.Millisecond, 25 * units.Millisecond, 100 * units.Millisecond}
)

// A judge makes the controllers and prints the rows.
type judge struct {
	make      congestion.Factory
	seed      uint64
	met, rows int
	stalls    bottleneck.Stalls
	spacing   units.Instant // by which a flow starts after another
	rates     []units.Rate  // of the links
}

var text = units.FormatDuration

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

const usage = `Judges a congestion controller in a network of one queue, in virtual time: the tables of docs/results/congestion.md.

  go run ./test/congestion [flags]

Flags:
`

// run prints the table, or returns what is wrong with the arguments.
func run(args []string) error {
	flags := flag.NewFlagSet("congestion", flag.ExitOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	name := flags.String("cc", "bbr", "congestion `control`: one that sdr-perf congestion lists, or tcp-cubic or tcp-bbr")
	jitter := flags.Bool("busy", false, "let the ends' hosts stall as busy ones do")
	spacing := flags.Duration("spacing", 1200*time.Millisecond, "by which flows that share begin one after another; a TCP flow and ours by five thirds of it")
	rates := slices.Clone(defaultRates)
	flags.Func("rates", "`RATE,...` of the links (default 1gbit,200mbit)", func(text string) (err error) {
		rates = nil
		for _, t := range strings.Split(text, ",") {
			r, err := units.ParseRate(t)
			if err != nil || r <= 0 {
				return cmp.Or(err, fmt.Errorf("%s: choose more than zero", t))
			}
			rates = append(rates, r)
		}
		return nil
	})
	seed := flags.Uint64("seed", 1, "of the random losses")
	only := flags.String("only", strings.Join(partNames(), ","), "`parts` of the table")
	_ = flags.Parse(args) // exits by itself
	factory, err := controller(*name)
	if err != nil {
		return err
	}
	chosen := strings.Split(*only, ",")
	for _, c := range chosen {
		if !slices.Contains(partNames(), c) {
			return fmt.Errorf("-only %s: there is no part %q, choose from %s", *only, c, strings.Join(partNames(), ","))
		}
	}
	if *spacing < 0 || flags.NArg() > 0 {
		return fmt.Errorf("-spacing %v, and arguments %q: must not be negative, and there are none", *spacing, flags.Args())
	}
	j := &judge{make: factory, seed: *seed, spacing: units.Instant(*spacing), rates: rates}
	if *jitter {
		j.stalls = bottleneck.BusyHost
	}
	for _, p := range parts {
		if slices.Contains(chosen, p.name) {
			p.run(j)
		}
	}
	if j.rows > 0 {
		fmt.Printf("\n%d of %d rows met their goals.\n", j.met, j.rows)
	}
	return nil
}

// parts are those of the table, in their order.
var parts = []struct {
	name string
	run  func(*judge)
}{
	{"alone", (*judge).alone}, {"shared", (*judge).shared}, {"mixed", (*judge).mixed}, {"rivals", (*judge).rivals}, {"incast", (*judge).incast},
	{"changes", (*judge).changes}, {"routes", (*judge).routes}, {"shallow", (*judge).shallow},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// tcpCubic and tcpBBR make the TCP senders.
func tcpCubic(congestion.Path) congestion.Controller { return &bottleneck.Cubic{Packet: packet} }
func tcpBBR(congestion.Path) congestion.Controller   { return &bottleneck.BBRv1{Packet: packet} }

// controller is that of a name: a congestion control's, or one of the TCP senders'.
func controller(name string) (congestion.Factory, error) {
	switch name {
	case "tcp-cubic":
		return tcpCubic, nil
	case "tcp-bbr":
		return tcpBBR, nil
	}
	spec, err := congestion.Parse(name)
	if err == nil && spec.Telemetry {
		err = fmt.Errorf("-cc %s: it decides by what switches write into packets, which this queue doesn't", name)
	}
	return spec.New, err
}

func (j *judge) head(title, columns string) { table(title, columns+" | goals") }

// table begins a table.
func table(title, columns string) {
	fmt.Printf("\n### %s\n\n| %s |\n|%s\n", title, columns, strings.Repeat("---|", strings.Count(columns, "|")+1))
}

// row prints a row and what it missed.
func (j *judge) row(missed []string, format string, args ...any) {
	verdict := "met"
	j.rows++
	if len(missed) == 0 {
		j.met++
	} else {
		verdict = "**missed: " + strings.Join(missed, ", ") + "**"
	}
	fmt.Printf("| "+format+" | %s |\n", append(args, verdict)...)
}

func unless(missed []string, met bool, what string) []string {
	if !met {
		missed = append(missed, what)
	}
	return missed
}

func (j *judge) flow(rtt units.Duration, start units.Instant) bottleneck.Flow {
	return bottleneck.Flow{
		Controller: j.make(congestion.Path{MTU: packet}), RTT: rtt, Start: start,
		Report: min(max(rtt/32, 100*units.Microsecond), 5*units.Millisecond), Sender: j.stalls, Receiver: j.stalls,
	}
}

func (j *judge) link(rate units.Rate, buffer units.Bytes) bottleneck.Link {
	return bottleneck.Link{Rate: rate, Buffer: buffer, Packet: packet, Seed: j.seed}
}

// alone: one flow, from 2 s to 8 s after its start, and on long lossy paths a CUBIC flow in its place.
func (j *judge) alone() {
	j.head("Alone", "link | buffer | random loss a packet | of the link less the loss | CUBIC's | dropped by the queue | mean queue, of the buffer | of the round trip")
	const from, end = 2 * sec, 8 * sec
	for _, rate := range j.rates {
		for _, rtt := range rtts {
			product := rate.Bytes(rtt)
			for i, buffer := range []units.Bytes{max(product/10, 64*units.KiB), product, 4 * product} {
				for _, loss := range []float64{0, 1e-4, 1e-3, 1e-2} {
					l := j.link(rate, buffer)
					l.Loss = loss
					b := bottleneck.New(l, j.flow(rtt, 0))
					b.Run(end)
					s := b.Sum(0, from, end)
					of := func(b *bottleneck.Bed) float64 { return float64(b.Rate(0, from, end)) / float64(rate) / (1 - loss) }
					share := of(b)
					cubic, beside := 0.0, "–"
					if loss == 1e-2 && rtt >= 25*units.Millisecond { // where we are asked for five times as much
						b := bottleneck.New(l, bottleneck.Flow{Controller: tcpCubic(congestion.Path{}), RTT: rtt})
						b.Run(end)
						cubic = of(b)
						beside = fmt.Sprintf("%.3f", cubic)
					}
					dropped := float64(s.Dropped) / float64(s.Sent)
					mean, _ := b.Queued(from, end)
					wait := float64(rate.Time(mean)) / float64(rtt)
					missed := unless(nil, share >= 0.93, "0.93")
					missed = unless(missed, dropped < 0.01, "1 %")
					missed = unless(missed, 2*mean < buffer, "half a buffer")
					missed = unless(missed, i == 0 || wait < 0.5, "half a round trip")
					missed = unless(missed, share >= 5*cubic, "5 times CUBIC's")
					j.row(missed, "%v, %s | %v | %g | %.3f | %s | %.2f %% | %.2f | %.2f", rate, text(rtt), buffer, loss,
						share, beside, 100*dropped, float64(mean)/float64(buffer), wait)
				}
			}
		}
	}
}

func (j *judge) share(name string, rate units.Rate, buffer units.Bytes, goal float64, rtts ...units.Duration) {
	longest := slices.Max(rtts)
	var flows []bottleneck.Flow
	for i, rtt := range rtts {
		flows = append(flows, j.flow(rtt, units.Instant(i)*j.spacing))
	}
	from := units.Instant(len(rtts)-1)*j.spacing + max(units.Instant(20*longest), 3*sec)
	end := from + 6*sec
	b := bottleneck.New(j.link(rate, buffer), flows...)
	b.Run(end)
	use, dropped := together(b, len(flows), rate, from, end)
	mean, _ := b.Queued(from, end)
	worst := b.WorstJain(from, end)
	j.row(unless(nil, worst >= goal, fmt.Sprint(goal)), "%s | %v | %.3f | %.3f | %.2f %% | %.2f",
		name, buffer, worst, use, 100*dropped, float64(rate.Time(mean))/float64(longest))
}

// together is how much of a link n flows use, and which share of what they send the queue drops.
func together(b *bottleneck.Bed, n int, rate units.Rate, from, end units.Instant) (use, dropped float64) {
	var all bottleneck.Record
	for i := range n {
		s := b.Sum(i, from, end)
		use += float64(b.Rate(i, from, end)) / float64(rate)
		all.Sent, all.Dropped = all.Sent+s.Sent, all.Dropped+s.Dropped
	}
	return use, float64(all.Dropped) / float64(all.Sent)
}

const sharedColumns = "flows | buffer | worst Jain index of a second | of the link | dropped by the queue | mean queue, of the longest round trip"

func (j *judge) shared() {
	j.head("Several flows, one each "+text(units.Duration(j.spacing)), sharedColumns)
	for _, rate := range j.rates {
		for _, rtt := range rtts {
			for _, n := range []int{2, 8} {
				for _, products := range []units.Bytes{1, 4} {
					j.share(fmt.Sprintf("%d, %v, %s", n, rate, text(rtt)), rate, max(products*rate.Bytes(rtt), 64*units.KiB), 0.95,
						slices.Repeat([]units.Duration{rtt}, n)...)
				}
			}
		}
	}
}

func (j *judge) mixed() {
	j.head("Round trips of 2 and 25 ms mixed", sharedColumns)
	for _, rate := range j.rates {
		for _, n := range []int{2, 8} {
			for _, first := range []int{1, 2} {
				pair := []units.Duration{rtts[first], rtts[3-first]}
				j.share(fmt.Sprintf("%d, %v, first %s", n, rate, text(pair[0])), rate, rate.Bytes(rtts[2]), 0.8, slices.Repeat(pair, n/2)...)
			}
		}
	}
}

// rivals: one flow beside one TCP flow, over any 10 s from 5 s after the later start on.
func (j *judge) rivals() {
	j.head("Beside one TCP flow, one product of buffer (at least 64 KiB)", "link | rival | first | least share over 10 s, ours | the rival's | dropped by the queue")
	const end, settled = 30 * sec, 7 * sec
	late := j.spacing * 5 / 3
	for _, rate := range j.rates {
		for _, rtt := range rtts {
			for _, rival := range []string{"cubic", "bbr v1"} {
				for _, first := range []string{"ours", "the rival"} {
					other := bottleneck.Flow{Controller: tcpCubic(congestion.Path{}), RTT: rtt}
					if rival != "cubic" {
						other.Controller = tcpBBR(congestion.Path{})
					}
					ours := j.flow(rtt, 0)
					if first == "ours" {
						other.Start = late
					} else {
						ours.Start = late
					}
					b := bottleneck.New(j.link(rate, max(rate.Bytes(rtt), 64*units.KiB)), ours, other)
					b.Run(end)
					least := [2]float64{1, 1}
					for from := settled; from+10*sec <= end; from += sec / 2 {
						for i := range least {
							least[i] = min(least[i], float64(b.Rate(i, from, from+10*sec))/float64(rate))
						}
					}
					s := b.Sum(0, settled, end)
					missed := unless(nil, least[0] >= 0.15, "0.15 for us")
					missed = unless(missed, least[1] >= 0.15, "0.15 for the rival")
					j.row(missed, "%v, %v | %s | %s | %.3f | %.3f | %.2f %%", rate, text(rtt), rival, first, least[0], least[1],
						100*float64(s.Dropped)/float64(s.Sent))
				}
			}
		}
	}
}

// incast: senders that begin at once through a queue that marks what finds more than a threshold waiting, from ten round trips on.
func (j *judge) incast() {
	j.head("Senders that begin at once, ECN", "senders | marks from | longest queue after 10 round trips, of the threshold | of the link | marked | timeouts")
	const rate, threshold, buffer, end = units.Gbit, 64 * units.KiB, 4 * units.MiB, 4 * sec
	for _, n := range []int{8, 32} {
		for _, rtt := range rtts[:2] {
			l := j.link(rate, buffer)
			l.MarkFrom, l.MarkTo, l.MarkMost = threshold, threshold, 1
			var flows []bottleneck.Flow
			for range n {
				flows = append(flows, j.flow(rtt, 0))
			}
			b := bottleneck.New(l, flows...)
			from := units.Instant(10 * rtt)
			b.Run(from)
			b.WatchQueue()
			b.Run(end)
			var all bottleneck.Record
			for i := range flows {
				s := b.Sum(i, 0, end)
				all.Sent, all.Delivered, all.Marked, all.Timeouts = all.Sent+s.Sent, all.Delivered+s.Delivered, all.Marked+s.Marked, all.Timeouts+s.Timeouts
			}
			most := float64(b.Longest()) / float64(threshold)
			missed := unless(nil, all.Timeouts == 0, "no timeout")
			missed = unless(missed, most <= 2, "twice the threshold")
			j.row(missed, "%d, %v, %s | %v | %.2f | %.3f | %.1f %% | %d", n, rate, text(rtt), threshold, most,
				float64(units.RateOf(all.Delivered, end.Sub(0)))/float64(rate), 100*float64(all.Marked)/float64(all.Sent), all.Timeouts)
		}
	}
}

// routes: the round trip doubles after 10 s and is as before after 20.
func (j *judge) routes() {
	j.head("The round trip changes, one product of buffer of the shorter", "link | what | from then on | of the link")
	const at, back, end = 10 * sec, 20 * sec, 30 * sec
	for _, rate := range j.rates {
		for _, rtt := range rtts {
			l := j.link(rate, max(rate.Bytes(rtt), 64*units.KiB))
			l.Changes = []bottleneck.Change{{At: at, Rate: rate, Detour: rtt}, {At: back, Rate: rate}}
			b := bottleneck.New(l, j.flow(rtt, 0))
			b.Run(end)
			for _, c := range []struct {
				what     string
				at, till units.Instant
				rtt      units.Duration
			}{{"doubles", at, back, 2 * rtt}, {"halves", back, end, rtt}} {
				after := max(40*c.rtt, 3*units.Second)
				share := float64(b.Rate(0, c.at.Add(after), c.till)) / float64(rate)
				j.row(unless(nil, share >= 0.9, "0.9"), "%v, %s | %s | %s | %.3f", rate, text(rtt), c.what, text(after), share)
			}
		}
	}
}

// changes: the link falls to a tenth after 10 s and comes back after 20; and it is dark from 10 s to 20.
func (j *judge) changes() {
	j.head("The link changes, one product of buffer", "link | what | 0.9 of it in use after | goal")
	for _, rate := range j.rates {
		for _, rtt := range rtts {
			const at, back, end = 10 * sec, 20 * sec, 30 * sec
			run := func(low units.Rate) *bottleneck.Bed {
				l := j.link(rate, max(rate.Bytes(rtt), 64*units.KiB))
				l.Changes = []bottleneck.Change{{At: at, Rate: low}, {At: back, Rate: rate}}
				b := bottleneck.New(l, j.flow(rtt, 0))
				b.Run(end)
				return b
			}
			b := run(rate / 10)
			j.reached(b, rate/10, rtt, at, back, "falls to a tenth", 10*rtt)
			j.reached(b, rate, rtt, back, end, "comes back", max(40*rtt, 3*units.Second))
			b = run(0)
			j.reached(b, rate, rtt, back, end, "dark for 10 s", 10*rtt+250*units.Millisecond)
		}
	}
}

// reached looks for when a tenth of a second, or two round trips, first used 0.9 of the link. What
// is delivered is heard of a round trip later, which is not counted.
func (j *judge) reached(b *bottleneck.Bed, rate units.Rate, rtt units.Duration, from, end units.Instant, what string, goal units.Duration) {
	window := max(2*bottleneck.Bin, 2*rtt)
	for t := from; t.Add(window) <= end; t = t.Add(bottleneck.Bin) {
		heard := t.Add((rtt + bottleneck.Bin - 1) / bottleneck.Bin * bottleneck.Bin)
		if float64(b.Rate(0, heard, heard.Add(window))) >= 0.9*float64(rate) {
			took := t.Sub(from)
			j.row(unless(nil, took <= goal+bottleneck.Bin, "too late"), "%v, %v | %s | %v | %v", rate, text(rtt), what, text(took), text(goal))
			return
		}
	}
	j.row([]string{"never"}, "%v, %v | %s | never | %v", rate, text(rtt), what, text(goal))
}

// shallow: eight flows in a small part of a product of buffer, as long ways have, beside what TCP does there. It is for nobody to meet.
func (j *judge) shallow() {
	table("Eight flows in less than one product of buffer, and TCP in their place",
		"link | buffer | worst Jain index of a second | dropped by the queue | of the link | CUBIC's | dropped | BBR v1's | dropped | one CUBIC's beside seven of ours")
	const n = 8
	from := n*j.spacing + 3*sec
	end := from + 6*sec
	for _, rate := range j.rates {
		for _, rtt := range rtts[1:] {
			for _, part := range []units.Bytes{100, 20, 10} {
				l := j.link(rate, rate.Bytes(rtt)/part)
				if l.Buffer < shallowest {
					continue
				}
				// run has flows of one kind, the last of which is of another.
				run := func(kind, last congestion.Factory) *bottleneck.Bed {
					flows := make([]bottleneck.Flow, n)
					for i := range flows {
						flows[i] = j.flow(rtt, units.Instant(i)*j.spacing)
						flows[i].Controller = kind(congestion.Path{MTU: packet})
					}
					flows[n-1].Controller = last(congestion.Path{MTU: packet})
					b := bottleneck.New(l, flows...)
					b.Run(end)
					return b
				}
				ours := run(j.make, j.make)
				use, dropped := together(ours, n, rate, from, end)
				cubicUse, cubicDropped := together(run(tcpCubic, tcpCubic), n, rate, from, end)
				bbrUse, bbrDropped := together(run(tcpBBR, tcpBBR), n, rate, from, end)
				beside := float64(run(j.make, tcpCubic).Rate(n-1, from, end)) / float64(rate)
				fmt.Printf("| %v, %s | %v | %.3f | %.2f %% | %.3f | %.3f | %.2f %% | %.3f | %.2f %% | %.4f |\n", rate, text(rtt), l.Buffer,
					ours.WorstJain(from, end), 100*dropped, use, cubicUse, 100*cubicDropped, bbrUse, 100*bbrDropped, beside)
			}
		}
	}
}

// shallowest is a buffer of which eight flows have a packet and a bit each.
const shallowest = 16 * units.KiB
