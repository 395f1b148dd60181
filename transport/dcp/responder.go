// SPDX-License-Identifier: Apache-2.0

package dcp

import "github.com/sdr-rdma/go-sdr/units"

// StateBytes is what a Responder keeps of the messages of a queue pair, in bytes.
const StateBytes = 48

// tracker is what the receiver keeps of eight messages (section 4.5): StateBytes. The highest bit of a count says that the message is
// whole. The paper's next bit, that it wants a completion, isn't kept: every message here does.
type tracker struct {
	count    [InFlight]uint16
	packets  [InFlight]uint16
	round    [InFlight]uint8
	expected uint32 // MSN of the first message that is not whole
	_        uint32
}

const (
	whole     = 1 << 15 // mcf
	countMask = 1<<14 - 1
)

// Answer is what to do about a packet, in this order.
type Answer struct {
	// Place: write the payload; otherwise the packet must not write.
	Place bool
	// Completed messages, in order, the last being Ack−1.
	Completed int
	// Ack: send an acknowledgement with Expected, the first message that is not whole.
	Ack      bool
	Expected uint32
	// Return: send the header back to its sender.
	Return bool
}

// Refusals are packets that a Responder did nothing about.
type Refusals struct {
	// Late are of finished messages, earlier rounds or (with a bitmap) seen before; Ahead are beyond the eight
	// messages, or tell of a message other than before: a peer that follows the rules sends none.
	Late, Ahead uint64
}

// A Responder is the receiving end.
type Responder struct {
	tracker
	cfg    *Config
	bitmap [InFlight][]uint64 // nil with Counter
	acked  units.Instant      // when a repeat was last acknowledged

	Refusals
}

// NewResponder makes a receiving end that expects message msn first.
func NewResponder(c *Config, msn uint32) *Responder {
	r := &Responder{cfg: c, acked: -1 << 62}
	r.expected = msn & mask24
	return r
}

// Expected is the first message that is not whole.
func (r *Responder) Expected() uint32 { return r.expected }

// OnData takes a packet with its payload: number index of a message of so many packets, as its RETH tells. The driver
// has checked the ICRC, the key and the range.
func (r *Responder) OnData(now units.Instant, h *Header, index, packets uint32) (a Answer) {
	d := after(h.MSN&mask24, r.expected)
	if d < 0 {
		r.Late++
		return r.again(now)
	}
	if d >= InFlight || packets == 0 || packets > MostPackets || index >= packets {
		r.Ahead++
		return a
	}
	i := h.MSN % InFlight
	switch {
	case r.count[i]&whole != 0:
		r.Late++
		return a
	case !r.fits(i, h, packets):
		return a
	case r.cfg.Track == Bitmap && !r.first(i, index):
		r.Late++
		return a
	}
	a.Place = true
	r.count[i]++
	if uint32(r.count[i]&countMask) == packets {
		r.count[i] |= whole
		a.Completed = r.advance()
	}
	a.Ack, a.Expected = a.Completed > 0, r.expected
	return a
}

// fits brings the slot to the packet's round, and reports whether the packet is of it.
func (r *Responder) fits(i uint32, h *Header, packets uint32) bool {
	if r.packets[i] == 0 {
		r.packets[i], r.round[i] = uint16(packets), h.Round
		if r.cfg.Track == Bitmap {
			r.clearBitmap(i, packets)
		}
	}
	switch {
	case r.packets[i] != uint16(packets):
		r.Ahead++
		return false
	case r.cfg.Track == Bitmap:
		return true // which packet it is says more than when it was sent
	case h.Round < r.round[i]:
		r.Late++
		return false
	case h.Round > r.round[i]:
		r.round[i], r.count[i] = h.Round, 0
	}
	return true
}

func (r *Responder) clearBitmap(i, packets uint32) {
	words := int(packets+63) / 64
	if cap(r.bitmap[i]) < words {
		r.bitmap[i] = make([]uint64, words)
	}
	r.bitmap[i] = r.bitmap[i][:words]
	clear(r.bitmap[i])
}

func (r *Responder) first(i, index uint32) bool {
	w, bit := &r.bitmap[i][index/64], uint64(1)<<(index%64)
	seen := *w&bit != 0
	*w |= bit
	return !seen
}

// advance frees the slots of whole messages, in order.
func (r *Responder) advance() (n int) {
	for ; r.count[r.expected%InFlight]&whole != 0; n++ {
		i := r.expected % InFlight
		r.count[i], r.packets[i], r.round[i] = 0, 0, 0
		r.expected = (r.expected + 1) & mask24
	}
	return n
}

// again acknowledges once more, for an acknowledgement may have been lost: at most once in an AckInterval.
func (r *Responder) again(now units.Instant) (a Answer) {
	if now >= r.acked.Add(r.cfg.AckInterval) {
		r.acked = now
		a.Ack, a.Expected = true, r.expected
	}
	return a
}

// OnHeader takes a header-only packet that is not marked as returned. Whether its check is right is the driver's
// business.
func (r *Responder) OnHeader(now units.Instant, h *Header) (a Answer) {
	d := after(h.MSN&mask24, r.expected)
	switch {
	case d < 0:
		r.Late++
		return r.again(now)
	case d >= InFlight:
		r.Ahead++
		return a
	}
	i := h.MSN % InFlight
	if r.count[i]&whole != 0 || !r.cfg.Published && r.cfg.Track == Counter && r.packets[i] != 0 && h.Round < r.round[i] {
		r.Late++ // its sender has sent the message again since
		return a
	}
	a.Return = true
	return a
}
