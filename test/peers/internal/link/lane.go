// SPDX-License-Identifier: Apache-2.0

package link

// A lane is the way of a flow behind the queue, for as long as its route lasts: packets of one don't
// overtake each other.
type lane struct {
	*ring
	flow  int
	delay int64 // nanoseconds
}

func newLane(c *Config, flow int, delay int64) *lane {
	onWire := int(float64(c.fastest()) / 8e9 * float64(delay))
	size := c.Queue + onWire
	return &lane{newRing(size, size/smallest), flow, delay}
}

// smallest is the packet size that the ring has room for at a full queue: of
// acknowledgements fewer bytes than that many fit in.
const smallest = 64

// due is when the oldest packet arrives.
func (l *lane) due() int64 { return l.oldest().left + l.delay }

// fastest is the highest rate that the link ever has.
func (c *Config) fastest() int64 {
	rate := c.Rate
	for _, x := range c.Changes {
		rate = max(rate, x.Rate)
	}
	return rate
}

// An IPv4 header's fields.
const (
	headerSize     = 20
	tosAt          = 1
	checksumAt     = 10
	lastOfSource   = 15
	lastOfReceiver = 19
	ecnMask        = 3
)

func isIPv4(b []byte) bool { return len(b) >= headerSize && b[0]>>4 == 4 }

// ect says that a packet may be marked.
func ect(b []byte) bool { return isIPv4(b) && b[tosAt]&ecnMask != 0 }

// mark sets the mark in an IPv4 header and mends its checksum (RFC 1624, equation 3).
func mark(b []byte) {
	before := uint32(b[tosAt])
	b[tosAt] |= ecnMask
	sum := uint32(^(uint16(b[checksumAt])<<8 | uint16(b[checksumAt+1])))
	sum += 0xffff - before + uint32(b[tosAt]) // the version and length before it stay
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	b[checksumAt], b[checksumAt+1] = ^byte(sum>>8), ^byte(sum)
}

// flowOf is the number of a packet's flow.
func (w *way) flowOf(b []byte) int {
	if !isIPv4(b) {
		return 0
	}
	if i := w.flows[b[lastOfSource]]; i != 0 {
		return int(i - 1)
	}
	return max(0, int(w.flows[b[lastOfReceiver]])-1)
}
