// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"github.com/sdr-rdma/go-sdr/units"
)

// PPM is a probability in millionths.
type PPM int

// share is p as a fraction of 1.
func (p PPM) share() float64 { return float64(p) / 1e6 }

// A Case is one run: transfers over one connection.
type Case struct {
	// Seed makes the run repeatable; two runs of equal cases are equal.
	Seed uint64
	// Units is how many data units each transfer has, of UnitBytes (default
	// 64 KiB), the last one only one byte long if ShortTail is set.
	Units     int
	UnitBytes units.Bytes
	ShortTail bool
	// Transfers is how many transfers the connection carries (default 1), one
	// after the other, or all at once if Together is set. Odd ones go the
	// other direction if Bidirectional is set.
	Transfers               int
	Together, Bidirectional bool

	// Channels and Spread: units are spread over the channels (default 4) in
	// runs of Spread units (default 4).
	Channels, Spread int
	// Rate is the paced rate (default 10 Gbit/s) and Burst how many units may
	// be injected at once (default 1).
	Rate  units.Rate
	Burst int
	// Window is how many units may be outstanding; by default what fits the
	// rate in twice the round trip plus the acknowledgement interval.
	Window int
	// AckInterval is 1/32 of the round trip by default.
	AckInterval units.Duration
	// MaxFrame bounds control frames (default 1024 bytes).
	MaxFrame int
	// RTTAtStart is what the sender believes at first: the truth by default,
	// nothing if it is negative.
	RTTAtStart units.Duration
	// Buffers says how many data units the receiver has buffers for, and
	// from when on; by default all from the start. Slots, if set, is how many
	// units are granted beyond the first missing one instead.
	Buffers []Grant
	Slots   int
	// ParityPool is how many parity units the receiver has room for at once.
	ParityPool int
	// Coding is how long an encoding or decoding job takes.
	Coding units.Duration
	// Garbage makes the network deliver random control frames, too.
	Garbage bool

	Link Link
	// Limit is how long the run may take; by default a generous bound for the
	// case.
	Limit units.Duration

	// Faults, if Replay is set, are the only faults of the network: Link's
	// probabilities and blackouts are ignored.
	Replay bool
	Faults []Fault
}

// A Grant gives the sender buffers for the data units below Units from At on.
type Grant struct {
	At    units.Instant
	Units int
}

// A Link describes the network, alike in both directions.
type Link struct {
	// Delay is the one-way delay (default 5 ms) and Extra adds to it for each
	// channel.
	Delay units.Duration
	Extra []units.Duration
	// Loss is the loss of data and parity units, in bursts of the mean length
	// Mean if that is more than 1; LossFrom is when it begins, LossTo, if not
	// 0, when it ends.
	Loss             PPM
	Mean             int
	LossFrom, LossTo units.Instant
	// ControlLoss and ControlReorder apply to control frames; AckLoss adds
	// to the loss of those from the receiving half.
	ControlLoss, ControlReorder, AckLoss PPM
	// Reorder delays single units by up to ReorderBy, inside their channel;
	// it delays control frames, too. Duplicate repeats both; the copy keeps its
	// place where the packet itself is delayed.
	Reorder   PPM
	ReorderBy units.Duration
	Duplicate PPM
	// Bottleneck, if set, is the rate that the path really has, with a queue
	// of Queue units (default 64).
	Bottleneck units.Rate
	Queue      int
	Blackouts  []Blackout
	// Jumps change the one-way delay.
	Jumps []Jump
}

// A Blackout loses everything for a time, or only what is named.
type Blackout struct {
	From, To units.Instant
	// Channels, if not empty, are the only channels that fail.
	Channels []int
	// With DataOnly control frames get through, and with ControlOnly data does.
	DataOnly, ControlOnly bool
}

// A Jump sets the one-way delay from At on.
type Jump struct {
	At    units.Instant
	Delay units.Duration
}

// defaultDelay is the one-way delay of a case that names none.
const defaultDelay = 5 * units.Millisecond

// withDefaults fills what a case leaves open.
func (c Case) withDefaults() Case {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if c.UnitBytes == 0 {
		c.UnitBytes = 64 * units.KiB
	}
	if c.Rate == 0 {
		c.Rate = 10 * units.Gbit
	}
	if c.Link.Delay == 0 {
		c.Link.Delay = defaultDelay
	}
	set(&c.Units, 1)
	set(&c.Transfers, 1)
	set(&c.Channels, 4)
	set(&c.Spread, 4)
	set(&c.Burst, 1)
	set(&c.MaxFrame, 1024)
	set(&c.Link.Queue, 64)
	if c.AckInterval == 0 {
		c.AckInterval = max(c.RTT()/32, 20*units.Microsecond)
	}
	set(&c.Window, int((2*c.RTT()+c.AckInterval)/c.Rate.Time(c.UnitBytes))+2*c.Burst+2)
	if c.RTTAtStart == 0 {
		c.RTTAtStart = 2 * c.Link.Delay
	}
	if c.Limit == 0 {
		c.Limit = c.defaultLimit()
	}
	return c
}

// RTT is the round-trip time of the slowest channel at the start.
func (c *Case) RTT() units.Duration {
	var extra units.Duration
	for _, e := range c.Link.Extra {
		extra = max(extra, e)
	}
	if c.Link.Delay == 0 {
		return 2*defaultDelay + extra
	}
	return 2*c.Link.Delay + extra
}

// length is the user data of one transfer.
func (c *Case) length() units.Bytes {
	n := units.Bytes(c.Units) * c.UnitBytes
	if c.ShortTail {
		n -= c.UnitBytes - 1
	}
	return n
}

// Ideal is the completion time of one transfer alone on a link without faults:
// size/rate + RTT.
func (c *Case) Ideal() units.Duration {
	d := c.withDefaults()
	return d.Rate.Time(d.length()) + d.RTT()
}

// defaultLimit is a bound that only a scheme that hangs, or repeats without
// end, should miss.
func (c *Case) defaultLimit() units.Duration {
	limit := 60*units.Second + 20*units.Duration(c.Transfers)*(c.Rate.Time(c.length())+c.RTT())
	for _, b := range c.Link.Blackouts {
		limit += b.To.Sub(b.From)
	}
	for _, g := range c.Buffers {
		limit += units.Duration(g.At)
	}
	for _, j := range c.Link.Jumps {
		limit += 64 * j.Delay
	}
	return limit
}
