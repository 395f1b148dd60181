// SPDX-License-Identifier: Apache-2.0

package reliability

// FarewellTime is what Close spends on telling the peer.
const FarewellTime = farewellTime

// Held is how much a Conn remembers that its peer has a say in.
type Held struct {
	// Grants are of transfers that no Send has begun; Refs of messages.
	Grants, SendRefs, RecvRefs int
	// ParityMessages are of all sends, Waiting are grants that wait for a slot.
	ParityMessages, Waiting int
	// FreeSend and FreeRecv are slots of the parity pools, of SlotsSend and SlotsRecv.
	FreeSend, SlotsSend, FreeRecv, SlotsRecv int
}

// CountsAlike reports whether what c keeps as outstanding is what its transfers have.
func (c *Conn) CountsAlike() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum flight
	for _, t := range c.out.transfers {
		sum.add(t.outstanding())
	}
	return sum == c.out.flight
}

// Deferred is how many Sends have yet to leave, with one that a caller is expected to start.
func (c *Conn) Deferred() int64 { return c.deferred.Load() }

// Uncollected is how many transfers have ended that somebody is expected to come for.
func (c *Conn) Uncollected() int64 { return c.uncollected.Load() }

// Stopped is why there are no more receives of a Conn whose queue pair works.
func (c *Conn) Stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.stopped
}

// Idle reports whether every transfer has ended.
func (c *Conn) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.out.transfers)+len(c.in.transfers) == 0
}

// Polled is how many receives the next Progress polls, unless it looks at all.
func (c *Conn) Polled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.polled
}

// PolledSends is how many sends the next Progress polls, unless one has waited for too long.
func (c *Conn) PolledSends() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.polled
}

// Coding is how many coding jobs of transfers that have not ended are under way.
func (c *Conn) Coding() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.out.transfers {
		n += t.coding
	}
	for _, t := range c.in.transfers {
		n += t.coding
	}
	return n
}

// Held looks at c.
func (c *Conn) Held() Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Held{
		SendRefs: len(c.out.messages), RecvRefs: len(c.in.messages), Waiting: len(c.out.waiting),
		FreeSend: len(c.out.parity.free), SlotsSend: c.out.parity.all,
		FreeRecv: len(c.in.parity.free), SlotsRecv: c.in.parity.all,
	}
	for _, g := range c.out.granted {
		h.Grants += len(g)
	}
	for _, t := range c.out.transfers {
		h.ParityMessages += t.parityOpened
	}
	return h
}
