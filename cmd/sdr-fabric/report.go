// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/cmd/internal/release"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/units"
)

// A report is the result of a run, as its JSON has it. Times of messages are of those that completed, as are payload, goodput and
// fairness: null where none did.
type report struct {
	Version      string              `json:"version"`
	Program      string              `json:"program,omitempty"` // of a stored run: see program
	Config       scenario            `json:"config"`
	Seed         uint64              `json:"seed"`
	Hosts        int                 `json:"hosts"`
	Links        int                 `json:"links"`
	Flows        int                 `json:"flows"`
	Completed    int                 `json:"completed"`
	SimulatedNS  float64             `json:"simulated_ns"`
	Events       uint64              `json:"events"`
	EventsPerS   float64             `json:"events_per_s"`
	WallS        float64             `json:"wall_s"`
	RSSBytes     int64               `json:"rss_bytes"`
	Packets      packetCounts        `json:"packets"`
	Drops        map[string]uint64   `json:"drops"`
	CNPs         uint64              `json:"cnps"`
	Timeouts     uint64              `json:"timeouts"`
	Pauses       uint64              `json:"pauses"`
	PauseNS      float64             `json:"pause_ns"`
	PayloadBytes units.Bytes         `json:"payload_bytes"` // of completed messages
	GoodputGbps  float64             `json:"goodput_gbps"`  // of the whole network
	Jain         float64             `json:"jain"`          // of the messages' rates
	FCT          distribution        `json:"fct_ns"`
	Slowdown     slowdowns           `json:"slowdown"`
	Groups       map[string]groupFCT `json:"groups,omitempty"` // jobs, where there are several
	Samples      *samples            `json:"samples,omitempty"`
	Hash         string              `json:"hash"`
}

// MarshalJSON writes null for what is known of messages that completed, where none did.
func (r report) MarshalJSON() ([]byte, error) {
	type plain report
	if r.Completed > 0 {
		return json.Marshal(plain(r))
	}
	return json.Marshal(struct {
		plain
		PayloadBytes *units.Bytes  `json:"payload_bytes"`
		GoodputGbps  *float64      `json:"goodput_gbps"`
		Jain         *float64      `json:"jain"`
		FCT          *distribution `json:"fct_ns"`
		Slowdown     *slowdowns    `json:"slowdown"`
	}{plain: plain(r)})
}

type packetCounts struct {
	Sent          uint64 `json:"sent"`
	Delivered     uint64 `json:"delivered"`
	Dropped       uint64 `json:"dropped"`
	Trimmed       uint64 `json:"trimmed"`
	Marked        uint64 `json:"marked"`
	Retransmitted uint64 `json:"retransmitted"`
	HeadersLost   uint64 `json:"headers_lost"`
	// Repeating is the share of messages, of those that have started, of which something was sent again.
	Repeating float64 `json:"messages_repeating"`
}

type distribution struct {
	Avg  float64 `json:"avg"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// slowdowns are the completion time over that of the message alone in the network.
type slowdowns struct {
	Avg     float64              `json:"avg"`
	P50     float64              `json:"p50"`
	P95     float64              `json:"p95"`
	P99     float64              `json:"p99"`
	Max     float64              `json:"max"`
	ByClass map[string]classSlow `json:"by_class,omitempty"` // of all messages
	// BySize are as many messages each, from small to large.
	BySize []sizeSlow `json:"by_size"`
}

// sizeSlow is one of sizeGroups parts of all messages: the simulators that the papers' evaluations come from (HPCC's and
// conweave-ns3's) draw slowdowns over sizes like this.
type sizeSlow struct {
	Largest units.Bytes `json:"largest"`
	P50     float64     `json:"p50"`
	P95     float64     `json:"p95"`
	P99     float64     `json:"p99"`
}

const sizeGroups = 20

// slowdownsOf makes them but for the classes. It sorts the messages by size.
func slowdownsOf(of []sized) slowdowns {
	var slow []float64
	for _, f := range of {
		slow = append(slow, f.slow)
	}
	d := distribute(slow)
	return slowdowns{Avg: d.Avg, P50: d.P50, P95: d.P95, P99: d.P99, Max: d.Max, BySize: bySize(of)}
}

// bySize makes the groups, and sorts the messages by size.
func bySize(of []sized) (groups []sizeSlow) {
	slices.SortStableFunc(of, func(a, b sized) int { return cmp.Compare(a.size, b.size) })
	for i := range sizeGroups {
		part := of[i*len(of)/sizeGroups : (i+1)*len(of)/sizeGroups]
		if len(part) == 0 {
			continue
		}
		var slow []float64
		for _, f := range part {
			slow = append(slow, f.slow)
		}
		d := distribute(slow)
		groups = append(groups, sizeSlow{part[len(part)-1].size, d.P50, d.P95, d.P99})
	}
	return groups
}

type sized struct {
	size units.Bytes
	slow float64
}

type classSlow struct {
	Flows int     `json:"flows"`
	Avg   float64 `json:"avg"`
	P99   float64 `json:"p99"`
}

// groupFCT is when the last message of a job, or of one of several loads, ended, and the slowdowns of its messages.
type groupFCT struct {
	Flows    int       `json:"flows"`
	LastNS   float64   `json:"last_ns"`
	Slowdown slowdowns `json:"slowdown"`
}

func distribute(v []float64) distribution {
	if len(v) == 0 {
		return distribution{}
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return distribution{
		Avg: sum / float64(len(v)), P50: percentile(v, 0.5), P95: percentile(v, 0.95), P99: percentile(v, 0.99),
		P999: percentile(v, 0.999), Max: v[len(v)-1],
	}
}

// percentile is the smallest value that a share p of all doesn't exceed. v is sorted.
func percentile(v []float64, p float64) float64 {
	i := int(p*float64(len(v))+0.999999999) - 1
	return v[min(max(i, 0), len(v)-1)]
}

// sizeClasses are THEMIS's, from small to large.
var sizeClasses = []string{"size<=10KiB", "10KiB<size<=100KiB", "size>100KiB"}

// sizeClass is where a message counts by its size.
func sizeClass(size units.Bytes) string {
	switch {
	case size <= 10*units.KiB:
		return sizeClasses[0]
	case size <= 100*units.KiB:
		return sizeClasses[1]
	}
	return sizeClasses[2]
}

// classesOf are the classes that there are messages of: by where they go, then by size.
func classesOf(by map[string]classSlow) (names []string) {
	for _, where := range []string{"", "intra", "inter"} {
		for _, class := range append([]string{""}, sizeClasses...) {
			name := strings.TrimSpace(where + " " + class)
			if _, ok := by[name]; ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func nanoseconds(t des.Time) float64 { return float64(t) / 1000 }

func (o *outcome) report(s *scenario) *report {
	r, p := o.result, o.result.Packets
	rep := &report{
		Version: release.Version(), Config: *s, Seed: s.Seed, Hosts: len(o.graph.Hosts()), Links: len(o.graph.Links), Flows: r.Flows, Completed: r.Done,
		SimulatedNS: nanoseconds(r.Now), Events: r.Events, WallS: o.wall.Seconds(), RSSBytes: peakRSS(),
		Packets: packetCounts{p.Sent, p.Delivered, p.Dropped, p.Trimmed, p.Marked, p.Retransmitted, p.Headers, 0},
		Drops: map[string]uint64{
			"queue": r.Drops.Queue, "buffer": r.Drops.Buffer, "link_down": r.Drops.LinkDown, "wire": r.Drops.Wire,
			"no_route": r.Drops.NoRoute, "function": r.Drops.Function, "forced": r.Drops.Forced,
		},
		CNPs: r.CNPs, Timeouts: r.Timeouts, Pauses: r.Pauses, PauseNS: nanoseconds(r.PauseTime), Samples: o.seen, Hash: fmt.Sprintf("%016x", r.Hash),
	}
	if o.wall > 0 {
		rep.EventsPerS = float64(r.Events) / o.wall.Seconds()
	}
	t := tally{sites: sites(o.graph), by: map[string][]float64{}, groups: map[string]groupFCT{}, sizesIn: map[string][]sized{}}
	for i, w := range o.flows {
		t.add(o.sim.Flow(i), o.sim.Standalone(i), strconv.Itoa(int(w.Group)))
	}
	t.report(rep)
	return rep
}

// sites numbers the parts that are left of a network when the links between switches of one tier are
// cut, and those ten times as long as its typical one: data centres. It is nil where there is one only.
func sites(g *topo.Graph) []int {
	var delays []units.Duration
	for _, l := range g.Links {
		delays = append(delays, l.Delay)
	}
	slices.Sort(delays)
	far := 10 * max(delays[len(delays)/2], 1)
	site, n := make([]int, len(g.Nodes)), 0
	at := make([][]int, len(g.Nodes))
	for _, l := range g.Links {
		tier := g.Nodes[l.A].Tier
		if l.Delay < far && (tier == 0 || tier != g.Nodes[l.B].Tier) {
			at[l.A], at[l.B] = append(at[l.A], l.B), append(at[l.B], l.A)
		}
	}
	for start := range g.Nodes {
		if site[start] != 0 {
			continue
		}
		n++
		site[start] = n
		for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
			for _, o := range at[queue[0]] {
				if site[o] == 0 {
					site[o] = n
					queue = append(queue, o)
				}
			}
		}
	}
	if n == 1 {
		return nil
	}
	return site
}

// writeFlows writes a line for each message.
func (o *outcome) writeFlows(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"flow", "src", "dst", "bytes", "group", "start_ns", "received_ns", "fct_ns", "standalone_ns", "slowdown"})
	ns := func(t des.Time) string {
		if t == des.Never {
			return ""
		}
		return strconv.FormatFloat(nanoseconds(t), 'f', 3, 64)
	}
	for i, w := range o.flows {
		f, alone := o.sim.Flow(i), o.sim.Standalone(i)
		slow := ""
		if f.FCT != des.Never {
			slow = strconv.FormatFloat(float64(f.FCT)/float64(alone), 'f', 4, 64)
		}
		_ = c.Write([]string{
			strconv.Itoa(i), strconv.Itoa(f.Src), strconv.Itoa(f.Dst), strconv.FormatInt(int64(f.Size), 10), strconv.Itoa(int(w.Group)),
			ns(f.Start), ns(f.Received), ns(f.FCT), ns(alone), slow,
		})
	}
	c.Flush()
	return c.Error()
}

// print writes what a person wants to know first.
func (r *report) print(w io.Writer) {
	us := func(ns float64) string { return units.FormatDuration(units.Duration(ns)) }
	usage.Fillf(w, "%s, %s, %s, cc %s, routing %s, seed %d", r.Config.Topo, r.Config.Load, r.Config.Transport, r.Config.CC, r.Config.Routing, r.Seed)
	fmt.Fprintf(w, "%d hosts, %d links; %d of %d messages complete after %s\n", r.Hosts, r.Links, r.Completed, r.Flows, us(r.SimulatedNS))
	fmt.Fprintf(w, "%.1f M events in %.2f s: %.2f M events/s; %v at most\n\n", float64(r.Events)/1e6, r.WallS, r.EventsPerS/1e6, units.Bytes(r.RSSBytes))
	r.printTimes(w)
	p := r.Packets
	fmt.Fprintln(w)
	usage.Fillf(w, "packets: %d sent, %d delivered, %d dropped, %d trimmed, %d marked", p.Sent, p.Delivered, p.Dropped, p.Trimmed, p.Marked)
	usage.Fillf(w, "%d sent again, by %.1f %% of messages", p.Retransmitted, 100*p.Repeating)
	usage.Fillf(w, "%d timeouts, %d headers lost, %d notifications, %d pauses for %s in all", r.Timeouts, p.HeadersLost, r.CNPs, r.Pauses, us(r.PauseNS))
	if r.Completed > 0 {
		usage.Fillf(w, "goodput %v; Jain %.3f", units.Rate(r.GoodputGbps*float64(units.Gbit)), r.Jain)
	}
	usage.Fillf(w, "hash %s", r.Hash)
}

// printTimes prints what is known of messages that are complete.
func (r *report) printTimes(w io.Writer) {
	switch {
	case r.Completed == 0:
		usage.Fillf(w, "no message is complete: there are no completion times, no goodput and no fairness to tell of")
		return
	case r.Completed < r.Flows:
		usage.Fillf(w, "times, goodput and Jain are those of the messages that are complete, %d of %d", r.Completed, r.Flows)
	}
	us := func(ns float64) string { return units.FormatDuration(units.Duration(ns)) }
	f := r.FCT
	fmt.Fprintf(w, "%-26s %9s %9s %9s %9s %9s\n", "", "average", "p50", "p99", "p99.9", "max")
	fmt.Fprintf(w, "%-26s %9s %9s %9s %9s %9s\n", "completion time", us(f.Avg), us(f.P50), us(f.P99), us(f.P999), us(f.Max))
	fmt.Fprintf(w, "%-26s %9.3f %9.3f %9.3f %9s %9.3f\n", "over that alone", r.Slowdown.Avg, r.Slowdown.P50, r.Slowdown.P99, "", r.Slowdown.Max)
	for _, c := range classesOf(r.Slowdown.ByClass) {
		s := r.Slowdown.ByClass[c]
		fmt.Fprintf(w, "  %-24s %9.3f %9s %9.3f (%d messages)\n", c, s.Avg, "", s.P99, s.Flows)
	}
	if len(r.Groups) > shownGroups {
		fmt.Fprintf(w, "  of %d groups: in the JSON\n", len(r.Groups))
		return
	}
	for i := range shownGroups {
		if g, ok := r.Groups[strconv.Itoa(i)]; ok {
			fmt.Fprintf(w, "  group %-18d %9.3f %9.3f %9.3f (%d messages)\n", i, g.Slowdown.Avg, g.Slowdown.P50, g.Slowdown.P99, g.Flows)
		}
	}
}

// shownGroups is how many groups of messages are printed: as many as there can be loads at once.
const shownGroups = 16
