// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// readLink takes from results of sdr-perf what the command line doesn't say: rate, RTT, drop probability
// and bursts of the emulated link, sizes, MTU and the unit of repeats.
func (p *plan) readLink(cmd *cobra.Command, stdin io.Reader) error {
	points, err := readPoints(stdin, p.from)
	if err != nil {
		return err
	}
	given := func(names ...string) bool { return slices.ContainsFunc(names, cmd.Flags().Changed) }
	if len(points) == 0 {
		return usage.Errorf("--from %s: no results", p.from)
	}
	var seen []measuredLink
	var sizes usage.Sizes
	var drops probabilities
	for i := range points {
		l, drop := measured(&points[i])
		if !slices.Contains(seen, l) {
			seen = append(seen, l)
		}
		sizes, drops = append(sizes, points[i].SizeBytes), append(drops, drop)
	}
	if len(seen) > 1 {
		return usage.Errorf("--from %s: results of different links, chunks or MTUs (%d): leave one of them in the file", p.from, len(seen))
	}
	l := seen[0]
	switch {
	case l.rate == 0 && !given("rate"):
		return usage.Errorf("--from %s: its link has no rate: add --rate", p.from)
	case l.rtt == 0 && !given("rtt", "distance"):
		return usage.Errorf("--from %s: its link has no RTT: add --rtt", p.from)
	case (l.mtu < 1 || l.unit < 1) && (!given("mtu") || !given("chunk")):
		return usage.Errorf("--from %s: mtu or unit_bytes is missing: add --mtu and --chunk", p.from)
	}
	take(&p.rate, l.rate, given("rate"))
	take(&p.rtt, l.rtt, given("rtt", "distance"))
	take(&p.burst, max(1, l.burst), given("burst", "chunk-drop"))
	take(&p.mtu, l.mtu, given("mtu"))
	take(&p.chunk, l.unit, given("chunk"))
	if !given("size") {
		slices.Sort(sizes)
		p.sizes = slices.Compact(sizes)
	}
	if !given("drop", "chunk-drop") {
		slices.Sort(drops)
		p.drop = slices.Compact(drops)
	}
	return nil
}

func take[T any](to *T, from T, given bool) {
	if !given {
		*to = from
	}
}

// A measuredLink is what points of one plan must share.
type measuredLink struct {
	rate      units.Rate
	rtt       units.Duration
	burst     float64
	mtu, unit units.Bytes
}

// measured returns the link of a point and the drop probability of its packets: the emulated link's, or
// what a real one lost of those sent.
func measured(p *result.Result) (l measuredLink, drop float64) {
	l.mtu, l.unit = p.MTU, p.Chunks.UnitBytes
	if p.Link != nil {
		l.rtt, l.burst, drop = p.Link.RTTNs, p.Link.Burst, p.Link.Drop
		if p.MTU > 0 {
			l.rate = withoutHeaders(p.Link.RateBps, p.MTU, headersOf(p.Link))
		}
		return l, drop
	}
	if p.Packets.Sent > 0 {
		drop = min(float64(p.Packets.DroppedReal+p.Packets.LostUnseen)/float64(p.Packets.Sent), 1)
	}
	return l, drop
}

// headersOf is how many bytes of headers a link's rate counts for each packet.
func headersOf(l *result.Link) units.Bytes { return cmp.Or(l.HeaderBytes, ipv4Headers) }

// withoutHeaders is the rate of user data of a link whose rate counts headers.
func withoutHeaders(rate units.Rate, mtu, headers units.Bytes) units.Rate {
	return units.Rate(float64(rate) * float64(mtu) / float64(mtu+headers))
}
