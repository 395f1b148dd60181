// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// shareText says how equally connections shared the path, where there are several.
func shareText(c *result.Congestion) string {
	if c.Jain == nil {
		return ""
	}
	return fmt.Sprintf(", Jain's index %.3f", *c.Jain)
}

// explain prints what is behind a row: -v.
func (pt *point) explain(w io.Writer, r *result.Result) {
	say := func(format string, args ...any) { fmt.Fprintf(w, "  "+format+"\n", args...) }
	text := units.FormatDuration
	s := pt.conn.Stats()
	say("%d transfers for warming up; times from %v to %v", r.Warmup, text(r.CompletionNs.Min), text(r.CompletionNs.Max))
	switch {
	case r.IdealNs == nil || *r.IdealNs == 0: // a link that takes no time
	case pt.Latency:
		say("ideal %v: %d round trips of RTT %v and twice the time of %v on the link; without headers", text(*r.IdealNs), r.Iterations, text(pt.Link.RTT), pt.size)
	case pt.streams():
		say("ideal %v: until the link has carried %d of %v, or %d in turn, each RTT %v + its time on the link; without headers",
			text(*r.IdealNs), r.Iterations, pt.size, pt.turns(r.Iterations), text(pt.Link.RTT))
	case pt.Link.total() == 0:
		say("ideal %v = RTT %v: no --rate, so the size takes no time", text(*r.IdealNs), text(pt.Link.RTT))
	case r.LongestStallNs != nil:
		say("ideal %v = what paths carry that live, for %v, + RTT %v, without headers; longest stall %v", text(*r.IdealNs), pt.size, text(pt.Link.RTT), text(*r.LongestStallNs))
	default:
		header := pt.end.dev.Caps().HeaderBytes
		say("ideal %v = %v at %v + RTT %v, without headers (%d bytes a packet, %.1f %%)",
			text(*r.IdealNs), pt.size, pt.Link.total(), text(pt.Link.RTT), header, 100*float64(header)/float64(r.MTU))
	}
	pace := "not paced"
	if s.Rate != 0 {
		pace = fmt.Sprintf("paced at %v of user data", s.Rate)
	}
	say("round trip %v, least %v; %s; window %d units of %v", text(s.QP.SRTT), text(s.QP.MinRTT), pace, s.Window, s.UnitBytes)
	if g := r.Congestion; g.RateBps != 0 {
		say("%s found %v of user data, a round trip of %v and %v of queue (%s)", g.Name, g.RateBps, text(g.MinRTTNs), text(g.QueueNs), g.State)
	}
	if n := len(r.Congestion.Course); n > 0 {
		found := ""
		if rate := r.Congestion.MeanRateBps; rate > 0 {
			found = fmt.Sprintf("%v found on average, ", rate)
		}
		say("over %s: %s%v of queue%s", plural(n, "interval"), found, text(r.Congestion.MeanQueueNs), shareText(&r.Congestion))
	}
	c := r.Chunks
	say("units: %d sent, of them %d again (%d for nothing) and %d parity; %d recovered by decoding; timers expired %d times since the start",
		c.Sent, c.Retransmitted, c.Spurious, c.Parity, c.Recovered, s.Units.Timeouts)
	if p := r.Packets; p.Sent > 0 {
		say("packets, both ends: %d sent, %d received; %d lost by the emulated link, %d refused by the devices, %d lost on the way, %d late, %d twice",
			p.Sent, p.Received, p.DroppedEmulated, p.DroppedReal, p.LostUnseen, p.LateDiscarded, p.Duplicate)
	}
	if p := r.Packets; p.NPMarked+p.NPCNPSent+p.RPCNPHandled+p.RPCNPIgnored > 0 {
		say("marks: %d packets had one; %d notifications sent, %d heeded, %d ignored", p.NPMarked, p.NPCNPSent, p.RPCNPHandled, p.RPCNPIgnored)
	}
	if s.Units.Explain != "" {
		say("%s chose: %s", r.Reliability, s.Units.Explain)
	}
	if u := r.CPU.Both(); u.Total() > 0 {
		say("processor time of both ends: %s user, %s sys, %s ns a packet, %.2f processors busy", text(u.User), text(u.Sys), nsPerPacket(&r.CPU), r.CPU.Load)
	}
	if r.CompletionNs.P999 == 0 {
		say("%d transfers have no 99.9th percentile: ask for more with -n", r.Iterations)
	}
}
