// SPDX-License-Identifier: Apache-2.0

// Package link carries packets between two file descriptors as a long link
// would: at a rate, through a queue, after a delay, and some not at all.
//
// A descriptor gives and takes one packet per read and write: a TUN device, or
// in tests a socket of packets. Each direction is one thread that reads all that
// has come, writes all that is due, and sleeps: a Grain while packets pass, else in
// ppoll until one comes or is due. It doesn't spin, because the two hosts need the
// processors.
package link

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// A Config describes both directions of a link.
type Config struct {
	// Rate is in bits per second of whole packets: what the descriptors
	// carry, so IP headers count and Ethernet's don't. 1e6 to 1e11.
	Rate int64
	// Delay is from the end of a packet's transmission to its arrival, one way.
	Delay time.Duration
	// Queue is how many bytes wait at most for transmission; what comes on
	// top is dropped. At least MaxPacket.
	Queue int
	// Early marks, or drops, packets of a queue that isn't full yet.
	Early Early
	// Drop is the probability with which each packet is lost on the wire,
	// after it has taken its time there. 0 to 1.
	Drop float64
	// Seed alone decides which packets of a direction are lost, counted in
	// the order in which they come.
	Seed uint64
	// Flows share the link, at most 64: each has its own Records, and may have a longer way
	// than others. What belongs to none of them belongs to the first. Without any, all is one flow.
	Flows []Flow
	// Changes happen to both directions, each at its time after Begin, in this order.
	Changes []Change
}

// A Flow is what one host sends, and what comes back to it.
type Flow struct {
	// Addr is the sender's IPv4 address. Its last byte tells it from those of other flows, and
	// from those of all receivers.
	Addr netip.Addr
	// Delay replaces the link's for this flow, in both directions.
	Delay time.Duration
}

// Early is what a queue does before it is full, by its length as it is when a packet comes: nothing up
// to From bytes, then with a chance that grows to Most at To, and always beyond. A packet of a transport
// that is capable of ECN is marked (RFC 3168). To 0: nothing.
type Early struct {
	From, To int
	Most     float64 // 0 to 1
	// Drops drops any other packet instead, as RED does. Without it those are let be, as where
	// a switch has a queue of its own for them.
	Drops bool
}

// A Change is what the link is from an instant on.
type Change struct {
	At time.Duration
	// Rate is as Config's. 0: the link is down, and what waits or comes is lost.
	Rate int64
	// Delay replaces that of every flow: the route is another one. Packets on the old one arrive
	// when they would have, so those behind may overtake them. 0: it stays.
	Delay time.Duration
}

// MaxPacket is the largest packet in bytes.
const MaxPacket = 9216

func (c *Config) check() error {
	switch {
	case c.Rate < 1e6 || c.Rate > 1e11:
		return fmt.Errorf("link: a rate of %d bit/s: choose 1e6 to 1e11", c.Rate)
	case c.Delay < 0 || c.Delay > 10*time.Second:
		return fmt.Errorf("link: a delay of %v: choose 0 to 10s", c.Delay)
	case c.Queue < MaxPacket || c.Queue > 1<<28:
		return fmt.Errorf("link: a queue of %d bytes: choose %d to %d", c.Queue, MaxPacket, 1<<28)
	case !(c.Drop >= 0 && c.Drop <= 1):
		return fmt.Errorf("link: a drop rate of %v: choose 0 to 1", c.Drop)
	case c.Early.From < 0 || c.Early.To != 0 && c.Early.To < c.Early.From || !(c.Early.Most >= 0 && c.Early.Most <= 1):
		return fmt.Errorf("link: marks from %d to %d bytes, at most %v: choose 0 or more, no less than the first, and 0 to 1", c.Early.From, c.Early.To, c.Early.Most)
	case len(c.Flows) > maxFlows:
		return fmt.Errorf("link: %d flows: choose at most %d", len(c.Flows), maxFlows)
	}
	return errors.Join(c.checkFlows(), c.checkChanges())
}

const maxFlows = 64

func (c *Config) checkFlows() error {
	var seen [256]bool
	for i, f := range c.Flows {
		switch {
		case !f.Addr.Is4():
			return fmt.Errorf("link: flow %d has the address %v: choose an IPv4 address", i, f.Addr)
		case seen[last(f.Addr)]:
			return fmt.Errorf("link: flow %d has the address %v: choose one that ends in another byte than those of the other flows", i, f.Addr)
		case f.Delay < 0 || f.Delay > 10*time.Second:
			return fmt.Errorf("link: flow %d has a delay of %v: choose 0 to 10s", i, f.Delay)
		}
		seen[last(f.Addr)] = true
	}
	return nil
}

func last(a netip.Addr) byte { return a.As4()[3] }

func (c *Config) checkChanges() error {
	before := time.Duration(0)
	for i, x := range c.Changes {
		switch {
		case x.At < before:
			return fmt.Errorf("link: change %d is at %v: choose a time after the one before it", i, x.At)
		case x.Rate != 0 && (x.Rate < 1e6 || x.Rate > 1e11):
			return fmt.Errorf("link: change %d is to %d bit/s: choose 0, or 1e6 to 1e11", i, x.Rate)
		case x.Delay < 0 || x.Delay > 10*time.Second:
			return fmt.Errorf("link: change %d is to a delay of %v: choose 0 to 10s", i, x.Delay)
		}
		before = x.At
	}
	return nil
}

// Counters count the packets of one direction.
type Counters struct {
	// Packets and Bytes came in; Lost of the packets were lost on the wire or in
	// an outage, Overflowed found the queue full or were dropped early, Marked were
	// marked, Refused were not taken by the far descriptor.
	Packets, Bytes, Lost, Overflowed, Marked, Refused uint64
	// Late of the packets left more than LateAfter after they were due,
	// Latest the worst of them. Lateness is this machine's fault, not the
	// link's.
	Late   uint64
	Latest time.Duration
}

// Grain is within what time packets arrive together instead of one after another,
// as from a NIC that coalesces interrupts: each is late by that at most.
const Grain = 100 * time.Microsecond

// LateAfter is from when on a packet counts as late.
const LateAfter = time.Millisecond
