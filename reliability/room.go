// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"errors"

	"github.com/sdr-rdma/go-sdr/sdr"
)

// The slots of a QP are used in the order of sequences, so a message that stays open holds up
// what is posted one round of slots later. Parity may stay open until its transfer ends, and so may
// what is posted ahead for later transfers. Neither may hold up a transfer that still needs more
// messages, or nothing would ever end.

// A room is what all receives together have of the slots. It is kept as things change, so
// that a look costs the same however many receives there are.
type room struct {
	posted int // messages of receives that have not ended
	toPost int // messages that they still want
	// next follows the last message posted, and no message below oldest is open.
	next, oldest uint64
	// changed: something that could not be posted may find room now.
	changed bool
}

// dataToPost is how many messages t must still post. Parity it may do without: whatever
// is not decoded is repeated.
func (t *recvTransfer) dataToPost() int {
	if t.closing {
		return 0
	}
	return max(0, t.wanted-t.dataPosted)
}

// book notes how many messages of t are still to be posted.
func (c *Conn) book(t *recvTransfer) {
	n := 0
	if !t.closing {
		n = t.dataToPost() + max(0, t.parWanted-len(t.par))
	}
	c.room.toPost += n - t.toPost
	t.toPost = n
	c.room.changed = true
}

// fits reports whether more messages may be posted: whether they, and those that have to be
// posted before them or may not be held up by them, find room in the round of slots that
// begins with the oldest open one.
func (c *Conn) fits(before, more int) bool {
	slots, r := c.qcfg.Split.Slots(), &c.room
	if r.posted+r.toPost <= slots {
		return true // a round has room for everything
	}
	for r.oldest < r.next {
		if _, open := c.recvSeq[r.oldest]; open {
			break
		}
		r.oldest++
	}
	return int(r.next-r.oldest)+before+more <= slots
}

// postFailed fails t, unless the slot is only not free yet.
func (c *Conn) postFailed(t *recvTransfer, err error) {
	if errors.Is(err, sdr.ErrAgain) {
		c.room.changed = true // some time it will be
	} else {
		c.failRecv(t, err)
	}
}
