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
	"fmt"
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
	// Drop is the probability with which each packet is lost on the wire,
	// after it has taken its time there. 0 to 1.
	Drop float64
	// Seed alone decides which packets of a direction are lost, counted in
	// the order in which they come.
	Seed uint64
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
	}
	return nil
}

// Counters count the packets of one direction.
type Counters struct {
	// Packets and Bytes came in; Lost of the packets were lost on the wire,
	// Overflowed found the queue full, Refused were not taken by the far
	// descriptor.
	Packets, Bytes, Lost, Overflowed, Refused uint64
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
