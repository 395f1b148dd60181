// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/backend"
)

// A Packet is in flight from one device to another, or a datagram that waits to be polled.
type Packet struct {
	Kind backend.Kind // KindWrite, KindDatagram, KindCongestion or KindTrimmed
	// Corrupted, Truncated, Marked and Trimmed are set by the network. A trimmed write has lost its payload.
	Corrupted, Truncated, Marked, Trimmed bool

	refs      int32  // arrivals still to come, and completions that show Data
	From, To  uint32 // numbers of the devices
	Src, Dst  uint32 // and of their queue pairs
	VA        uint64
	RKey, Imm uint32
	Length    uint32
	Cut       uint32 // of KindTrimmed: the length of the write
	Data      []byte // from the pool; nil before Leave, and when the source has only a size
}

func (p *Packet) flags() backend.Flags {
	if p.Marked {
		return backend.FlagECN
	}
	return 0
}

// packets is a slab of packets, named by index so that events stay small, and
// the pool of their payloads. Both only grow.
type packets struct {
	slab []Packet
	free []uint32
	pool [largestClass + 1][][]byte
}

// Payload buffers are pooled by powers of two, up to the largest MTU.
const largestClass = 30

// Packet returns packet i, valid until the next post.
func (p *packets) Packet(i uint32) *Packet { return &p.slab[i] }

// Idle reports whether no packet is in use.
func (p *packets) Idle() bool { return len(p.free) == len(p.slab) }

func (p *packets) get() uint32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		return i
	}
	p.slab = append(p.slab, Packet{})
	return uint32(len(p.slab) - 1)
}

// Release gives up one reference to packet i.
func (p *packets) Release(i uint32) {
	k := &p.slab[i]
	if k.refs--; k.refs > 0 {
		return
	}
	p.putBuffer(k.Data)
	*k = Packet{}
	p.free = append(p.free, i)
}

func (p *packets) buffer(n uint32) []byte {
	class := bits.Len32(n - 1)
	buffers := p.pool[class]
	if len(buffers) == 0 {
		return make([]byte, n, 1<<class)
	}
	b := buffers[len(buffers)-1]
	p.pool[class] = buffers[:len(buffers)-1]
	return b[:n]
}

func (p *packets) putBuffer(b []byte) {
	if cap(b) == 0 {
		return
	}
	class := bits.Len32(uint32(cap(b)) - 1)
	p.pool[class] = append(p.pool[class], b)
}
