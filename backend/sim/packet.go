// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/backend"
)

// A packet is under way from one device to the other, or a datagram that waits
// to be polled.
type packet struct {
	kind      backend.Kind // KindWrite, KindDatagram or KindCongestion
	to        uint8        // number of the receiving device
	corrupted bool
	marked    bool
	refs      int32 // arrivals still to come, and completions that show data
	src, dst  uint32
	va        uint64
	rkey, imm uint32
	length    uint32
	data      []byte // from the pool; nil when the source has only a size
}

// packets is a slab of packets, named by index so that events stay small, and
// the pool of their payloads. Both only grow.
type packets struct {
	slab []packet
	free []uint32
	pool [largestClass + 1][][]byte
}

// Payload buffers are pooled by powers of two, up to the largest MTU.
const largestClass = 30

func (p *packets) get() uint32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	p.slab = append(p.slab, packet{})
	return uint32(len(p.slab) - 1)
}

// release gives up one reference to packet i.
func (p *packets) release(i uint32) {
	k := &p.slab[i]
	if k.refs--; k.refs > 0 {
		return
	}
	p.putBuffer(k.data)
	*k = packet{}
	p.free = append(p.free, i)
}

func (p *packets) buffer(n uint32) []byte {
	class := bits.Len32(n - 1)
	list := p.pool[class]
	if len(list) == 0 {
		return make([]byte, n, 1<<class)
	}
	b := list[len(list)-1]
	p.pool[class] = list[:len(list)-1]
	return b[:n]
}

func (p *packets) putBuffer(b []byte) {
	if cap(b) == 0 {
		return
	}
	class := bits.Len32(uint32(cap(b)) - 1)
	p.pool[class] = append(p.pool[class], b)
}
