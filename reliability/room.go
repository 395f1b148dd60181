// SPDX-License-Identifier: Apache-2.0

package reliability

// The slots of a QP are used in the order of sequences, so a message that stays open holds up
// what is posted one round of slots later. Parity may stay open until its transfer ends, and so may
// what is posted ahead for later transfers. Neither may hold up a transfer that still needs more
// messages, or nothing would ever end.

// toPost is how many messages of t are still to be posted.
func (c *Conn) toPost(t *recvTransfer) int {
	if t.closing {
		return 0
	}
	return max(0, t.wanted-t.dataPosted) + max(0, c.parityWanted(t)-len(t.par))
}

// fits reports whether a message of t may be posted: all that transfers before t still need, and
// more messages with it, find room in the round of slots that begins with the oldest open one.
func (c *Conn) fits(t *recvTransfer, more int) bool {
	slots := c.qcfg.Split.Slots()
	all, before := 0, more
	passed := false
	for _, r := range c.recvs {
		passed = passed || r == t
		n := c.toPost(r)
		all += r.dataPosted + len(r.par) + n
		if !passed {
			before += n
		}
	}
	if all <= slots {
		return true // a round has room for everything
	}
	oldest := c.nextSeq
	for seq := range c.recvSeq {
		oldest = min(oldest, seq)
	}
	return int(c.nextSeq-oldest)+before <= slots
}
