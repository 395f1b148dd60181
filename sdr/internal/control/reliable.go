// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"

	"github.com/sdr-rdma/go-sdr/sdr/internal/wire"
	"github.com/sdr-rdma/go-sdr/units"
)

// MaxReliable and MaxReliableBytes bound the RELIABLE frames that are unacknowledged: a peer
// that acknowledges none can't make us keep more.
const (
	MaxReliable      = 64
	MaxReliableBytes = 64 << 10
)

// reliableCopies is how often a RELIABLE frame goes out before its acknowledgement can
// be here, as START does.
const reliableCopies = 3

// sequence numbers the RELIABLE frames of both directions. They are accepted in the order of their
// numbers: one that comes too early is not acknowledged, and so comes again behind the one that it
// overtook. That costs nothing while its copies are close, and nothing has to be kept.
type sequence struct {
	sent     uint64 // the number of the next to be sent
	expected uint64 // the number of the next to be accepted
}

// ReliableBytes is how many bytes of RELIABLE frames are unacknowledged.
func (s *Session) ReliableBytes() (n int) {
	for _, it := range s.boxes[wire.TypeReliable].items {
		n += len(it.frame.Bytes) // none of those that are acknowledged
	}
	return n
}

// SendReliable sends bytes of a reliability core, which are copied, until they are acknowledged. It reports false, and sends nothing, if
// they are more than MaxScheme, if with them more would be unacknowledged than may be, and, of a frame to the receiving half of a
// transfer, while the transfer's START is unacknowledged: it would come to a half that doesn't exist yet.
func (s *Session) SendReliable(now units.Instant, transfer uint64, toSender bool, b []byte) bool {
	switch {
	case len(b) > s.MaxScheme(), s.UnackedOf(wire.TypeReliable) >= MaxReliable, s.ReliableBytes()+len(b) > MaxReliableBytes:
		return false
	case !toSender && s.Pending(wire.TypeStart, transfer):
		return false
	}
	s.Put(now, wire.Frame{Type: wire.TypeReliable, ID: s.reliable.sent, Transfer: transfer, ToSender: toSender, Bytes: slices.Clone(b)}, reliableCopies)
	s.reliable.sent++
	return true
}

// CheckReliable looks at a received RELIABLE frame, number id: whether it is the next to be accepted, and if it
// isn't whether it was accepted before, and so is to be acknowledged again. Of others that a peer
// can send one before them is missing, and they will come again.
func (s *Session) CheckReliable(id uint64) (isNext, wasAccepted bool) {
	switch next := s.reliable.expected; {
	case id == next:
		return true, false
	case id < next:
		s.Stats.Duplicates++
		return false, true
	case id-next >= MaxReliable:
		s.Stats.Violations++ // those before it aren't acknowledged, so it can't have been sent
	}
	return false, false
}

// AcceptReliable goes on to the next frame.
func (s *Session) AcceptReliable() { s.reliable.expected++ }
