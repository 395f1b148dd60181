// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/posts"
	"github.com/sdr-rdma/go-sdr/units"
)

// Parity is beyond the paper. A message of k packets that has m of parity is whole when any k of the k+m have come, as with
// a code that is maximum distance separable (reliability/ec has real ones). Parity packets are numbered after the data's. The core
// counts packets and knows no content.

const (
	mostCorruption = 0.1
	// A message of a thousand may need a repeat although it has parity.
	repeatedMessages = 1e-3
	// mostCoded is the longest message that gets any, in packets, whatever the window.
	mostCoded = 256
)

// plan is how many packets of parity a message gets, by how many it has; nil: none.
type plan []uint8

// planFor makes the plan for a share of lost packets.
func planFor(corruption float64) plan {
	if corruption == 0 {
		return nil
	}
	p := make(plan, mostCoded+1)
	for k := 1; k <= mostCoded; k++ {
		p[k] = uint8(Parity(k, corruption))
	}
	return p
}

// Parity is how many packets of parity a message of 1 to 256 packets needs where a share of them is lost, of less than a tenth, so
// that one message in a thousand still needs a repeat.
func Parity(packets int, lost float64) int {
	m := 0
	for moreLost(packets+m, m, lost) > repeatedMessages {
		m++
	}
	return m
}

// moreLost is the probability that more than m of n packets are lost.
func moreLost(n, m int, p float64) float64 {
	exactly, atMost := 1.0, 0.0
	for range n {
		exactly *= 1 - p
	}
	for i := 0; i <= m; i++ {
		atMost += exactly
		exactly *= float64(n-i) / float64(i+1) * p / (1 - p)
	}
	return 1 - atMost
}

// parity is that of a message, none if it and that don't fit into the first window.
func (p plan) parity(m *transport.Message, rtt units.Duration) uint32 {
	k := m.Packets()
	if int(k) >= len(p) || m.Open {
		return 0
	}
	n := uint32(p[k])
	if units.Bytes(k+n)*m.MTU > m.LineRate.Bytes(rtt) {
		return 0
	}
	return n
}

// A coded message is one with its parity, or all messages of a connection, which have none.
type coded struct {
	transport.Message
	data, total uint32       // packets without and with parity
	posts       *posts.Posts // nil: a single message
}

func codedOf(m transport.Message, parity uint32) coded {
	if m.Open {
		return coded{Message: m, posts: posts.New(m.MTU)}
	}
	return coded{Message: m, data: m.Packets(), total: m.Packets() + parity}
}

// payload is the size of packet psn, and whether it is the last of a message.
func (c *coded) payload(psn uint32) (n uint16, last bool) {
	switch {
	case c.posts != nil:
		return c.posts.Payload(psn)
	case psn >= c.data:
		n = uint16(c.MTU)
	default:
		n = c.Payload(psn)
	}
	return n, psn+1 == c.total
}

// upTo is the payload of the packets before n.
func (c *coded) upTo(n uint32) units.Bytes {
	if c.posts != nil {
		return c.posts.UpTo(n)
	}
	if n <= c.data {
		return min(c.Size, units.Bytes(n)*c.MTU)
	}
	return c.Size + units.Bytes(n-c.data)*c.MTU
}
