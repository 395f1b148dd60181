// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"errors"
	"slices"

	"github.com/sdr-rdma/go-sdr/sdr"
)

// The slots of a QP are used in the order of sequences, so a message that stays open holds up
// what is posted one round of slots later. Parity may stay open until its transfer ends, and so may
// what is posted ahead for later transfers. Neither may hold up a transfer that still needs more
// messages, or nothing would ever end.

// A room is what all receives together have of the slots. It is kept as things change, so
// that a look costs the same however many receives there are.
type room struct {
	toPost int // messages that the receives that have not ended still want
	// next follows the last message posted, and no message below oldest is open.
	next, oldest uint64
	// changed: something that could not be posted may find room now.
	changed bool
}

// dataToPost is how many messages t must still post. Parity it may do without: whatever
// is not decoded is repeated.
func (t *recvTransfer) dataToPost() int {
	if t.state >= closing {
		return 0
	}
	return max(0, t.wanted-t.dataPosted)
}

// book records how many messages of t are still to be posted.
func (in *incoming) book(t *recvTransfer) {
	n := 0
	if t.state < closing {
		n = t.dataToPost() + max(0, t.parityWanted-len(t.parity))
	}
	in.room.toPost += n - t.toPost
	t.toPost = n
	in.room.changed = true
}

// left is how many more messages find room in the round of slots that begins with the oldest open one.
func (in *incoming) left() int {
	r := &in.room
	for r.oldest < r.next {
		if _, open := in.messages[r.oldest]; open {
			break
		}
		r.oldest++
	}
	return in.qcfg.Split.Slots() - int(r.next-r.oldest)
}

// fits reports whether a data message may be posted: whether it finds room, and those do that have to be posted before it.
func (in *incoming) fits(before int) bool {
	left := in.left()
	return in.room.toPost <= left || before < left
}

// fitsParity reports whether t may post a parity message: whether it finds room, and all data messages do that it must not hold up.
func (in *incoming) fitsParity(t *recvTransfer, before int) bool {
	left := in.left()
	before += t.dataToPost()
	return in.room.toPost <= left || before < left && before+in.dataHeldUp(t) < left
}

// dataHeldUp is how many data messages those that follow t must still post while parity of theirs is open: it was posted where there was
// room for them all.
func (in *incoming) dataHeldUp(t *recvTransfer) (n int) {
	i, _ := slices.BinarySearchFunc(in.transfers, t.id+1, byID)
	for _, later := range in.transfers[i:] {
		if later.state < closing && later.dataPosted == 0 && len(later.parity) == 0 {
			break // nothing is posted for those after it either
		}
		if len(later.parity) > later.parityBase {
			n += later.dataToPost()
		}
	}
	return n
}

// postFailed fails t, unless the slot is only not free yet.
func (in *incoming) postFailed(t *recvTransfer, err error) {
	if errors.Is(err, sdr.ErrAgain) {
		in.room.changed = true // some time it will be
		return
	}
	in.refused(t, err)
}

// hasEnded reports whether err is that of a queue pair that takes no posts any more, because either end has closed it or the peer is gone.
func hasEnded(err error) bool {
	return errors.Is(err, sdr.ErrClosed) || errors.Is(err, sdr.ErrPeerClosed) || errors.Is(err, sdr.ErrPeerDead)
}

// refused fails t, for which something can't be posted, and whatever follows if the sender couldn't learn of it otherwise.
func (in *incoming) refused(t *recvTransfer, err error) {
	if hasEnded(err) {
		return // Failed follows, and says why of all transfers, also of those that begin before it
	}
	t.fail(err)
	if t.dataPosted == 0 { // no COMPLETED can tell the sender, which waits
		in.stop(t.id, err, "a receive can't be posted")
		in.failFrom(t.id, err)
	}
}
