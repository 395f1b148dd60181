// SPDX-License-Identifier: Apache-2.0

package link

// A ring holds packets under way, in order, in one piece of memory.
type ring struct {
	bytes   []byte
	packets []packet // a power of two of them
	// head counts packets put in, tail those taken out; at is where the next
	// one's bytes go.
	head, tail uint64
	at         int
}

type packet struct {
	at, len int
	left    int64 // nanoseconds: when it has left the queue
}

// newRing has room for size bytes or n packets, whichever is reached first.
func newRing(size, n int) *ring {
	p := 1
	for p < n {
		p *= 2
	}
	// A packet isn't split, so up to MaxPacket is left unused at the end of the
	// memory, and as much between the newest packet and the oldest.
	return &ring{bytes: make([]byte, size+3*MaxPacket), packets: make([]packet, p)}
}

// room is where the next packet of up to MaxPacket bytes can be written, nil
// when the ring is full.
func (r *ring) room() []byte {
	if r.head-r.tail == uint64(len(r.packets)) {
		return nil
	}
	if r.empty() {
		r.at = 0
		return r.bytes[:MaxPacket]
	}
	oldest := r.oldest().at
	if r.at > oldest {
		if r.at+MaxPacket <= len(r.bytes) {
			return r.bytes[r.at : r.at+MaxPacket]
		}
		r.at = 0
	}
	if r.at+MaxPacket > oldest {
		return nil
	}
	return r.bytes[r.at : r.at+MaxPacket]
}

// put keeps the n bytes written to room.
func (r *ring) put(n int, left int64) {
	r.packets[r.head&uint64(len(r.packets)-1)] = packet{at: r.at, len: n, left: left}
	r.head++
	r.at += n
}

func (r *ring) empty() bool { return r.head == r.tail }

func (r *ring) oldest() *packet { return &r.packets[r.tail&uint64(len(r.packets)-1)] }

func (r *ring) content(p *packet) []byte { return r.bytes[p.at : p.at+p.len] }

func (r *ring) drop() { r.tail++ }

// after calls f with each packet that leaves after t, oldest first.
func (r *ring) after(t int64, f func(*packet)) {
	for i := r.tail; i != r.head; i++ {
		if p := &r.packets[i&uint64(len(r.packets)-1)]; p.left > t {
			f(p)
		}
	}
}

// cut forgets the packets that leave after t: the newest ones, as packets leave in their order.
func (r *ring) cut(t int64) (forgotten int) {
	for !r.empty() {
		p := &r.packets[(r.head-1)&uint64(len(r.packets)-1)]
		if p.left <= t {
			break
		}
		r.head--
		r.at = p.at
		forgotten++
	}
	return forgotten
}
