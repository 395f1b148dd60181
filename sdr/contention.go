// SPDX-License-Identifier: Apache-2.0

package sdr

import "github.com/sdr-rdma/go-sdr/units"

// A contention is by how much a packet more delays the QPs of a worker in sum, where they wait for each other: those that are looked at in
// the same round, of which there are the most of the last two spans.
type contention struct {
	begun        units.Instant // of this span
	before, most int           // QPs in a round, of the last span and of this one
}

const (
	// packetTime is about how long a packet that is sent by itself takes the processors of both ends.
	packetTime = 5 * units.Microsecond
	// contentionSpan is longer than a round of some hundred QPs takes.
	contentionSpan = 2 * units.Millisecond
)

// note notes that so many QPs are looked at in a round that begins at now.
func (c *contention) note(now units.Instant, n int) {
	if age := now.Sub(c.begun); age >= contentionSpan {
		c.before = c.most
		if age >= 2*contentionSpan {
			c.before = 0
		}
		c.begun, c.most = now, 0
	}
	c.most = max(c.most, n)
}

// cost is what a packet costs the other QPs.
func (c *contention) cost() units.Duration {
	return units.Duration(max(c.most, c.before, 1)-1) * packetTime
}
