// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/units"
)

// A Controller limits one sender on one path. The instants of successive calls must not decrease; one
// that does counts as the one before it.
type Controller interface {
	// OnSent tells of n bytes leaving at now, first transmissions and repeats alike. inflight is
	// what is then on its way, n included. Sizes count as those of the other calls do: which
	// headers they include is the driver's choice.
	OnSent(now units.Instant, n, inflight units.Bytes)
	// OnAck tells of feedback that says that bytes have arrived. With neither Acked nor RTT it is no feedback: the driver says what it
	// knows of the path, and may do so as often as it looks. The controller doesn't keep a.
	OnAck(now units.Instant, a *Ack)
	// OnCNP tells of a congestion notification packet of RoCEv2 (IBTA annex A17.9.3).
	OnCNP(now units.Instant)
	// OnLoss tells of bytes that are taken for lost, or of a sign of it.
	OnLoss(now units.Instant, l Loss)
	// Limits returns the rate at which packets may start and how many bytes may be in flight. 0 of
	// either is no limit of that kind.
	Limits(now units.Instant) (units.Rate, units.Bytes)
	// Next is when Limits next changes by itself, after the latest call's instant. A driver that doesn't call then
	// misses nothing but the change itself. Where nothing changes by itself it is units.Never. With 0, or another instant that is over,
	// package reliability asks again each millisecond while the controller holds something back, and a simulator at once, for ever.
	Next() units.Instant
}

// An Ack is what one piece of feedback tells. A driver keeps one and fills it anew for each call.
type Ack struct {
	RTT      units.Duration // from a packet's start to this feedback; 0: not measured
	Smoothed units.Duration // the driver's own smoothed round trip, and the least that it knows; 0: it keeps none
	Least    units.Duration
	Floor    units.Duration // what a window that all channels share takes at least, where they differ; 0: they don't, or it isn't known
	Acked    units.Bytes    // newly known to have arrived
	Inflight units.Bytes    // still on its way after this feedback
	Late     units.Bytes    // of what OnLoss was told, has come after all
	ECN      bool           // the packet that caused it carried CE
	Probe    bool           // answers a probe, not data
	INT      []Hop          // what switches wrote into that packet, in its order; nil where none do
}

// A LossKind says how a loss was noticed.
type LossKind uint8

// The ways in which losses are noticed.
const (
	// LossDetected: later packets arrived and these did not.
	LossDetected LossKind = iota
	// LossTimeout: nothing was heard for the transport's timeout, or the path carried nothing for a while.
	LossTimeout
	// LossProbe: the answer to a probe told.
	LossProbe
	// LossTrim: a switch trimmed the payload, and told of congestion by that.
	LossTrim
	// LossNack: the receiver refused a packet out of sequence (IBTA 9.7.5.2.8, a PSN sequence error).
	LossNack
	// LossUnacknowledged: neither lost nor known to have arrived, because the transfer ended before the
	// receiver could say. It is taken out of what was sent last.
	LossUnacknowledged
	// LossGuessed: a timer ran out, of a transport that waits for proof otherwise. Where hosts share
	// their processors most of these are none.
	LossGuessed
)

var lossKinds = [...]string{"detected", "timeout", "probe", "trim", "nack", "unacknowledged", "guessed"}

// String is the kind's name in one word.
func (k LossKind) String() string {
	if int(k) < len(lossKinds) {
		return lossKinds[k]
	}
	return "unknown"
}

// A Loss is bytes that are taken for lost.
type Loss struct {
	Bytes units.Bytes
	Kind  LossKind
}

// A Path is what is known of the way to the peer before the first packet.
type Path struct {
	LineRate units.Rate     // of the sender's own link
	BaseRTT  units.Duration // without queues; 0: not known
	MTU      units.Bytes    // the largest packet
	Hops     int            // links from sender to receiver; 0: not known
	Found    Model          // what another sender has found out on the same way lately; its Rate 0: nothing
}

// BDP is the product of line rate and base round trip, at least one MTU.
func (p Path) BDP() units.Bytes { return max(p.LineRate.Bytes(p.BaseRTT), p.MTU) }

// netRTT is the round trip without queues by which a controller scales its constants: the configured one, where that is 0 the
// path's. It is within what a Config may say, and never 0, because it divides.
func (p Path) netRTT(configured units.Duration) units.Duration {
	return min(max(cmp.Or(configured, p.BaseRTT), 1), units.Second)
}

// knowsPort reports whether the sender is a NIC, which knows its own port and the way.
func (p Path) knowsPort() bool { return p.LineRate > 0 && p.BaseRTT > 0 }

// A Model is what a controller has found out about its path.
type Model struct {
	Rate   units.Rate     // that the path gives this sender; 0: unknown
	MinRTT units.Duration // of the path without queues; 0: unknown
	Queue  units.Duration // how long packets wait in queues
	State  string         // what the controller is doing, in a word
	Full   bool           // a queue was full within the last round trips, or what gets lost is taken for that
	// Guess says that the path may give much more than Rate: nobody has asked it for more yet, or lately, or for this sender alone.
	Guess bool
}

// A Modeler is a Controller that has a Model.
type Modeler interface{ Model() Model }

// A Factory makes the controller of a new sender.
type Factory func(Path) Controller

// within says whether a constant of a controller is from low to high. NaN, which is neither below nor above, is not.
func within(v, low, high float64) bool { return v >= low && v <= high }
