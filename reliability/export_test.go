// SPDX-License-Identifier: Apache-2.0

package reliability

// Held is how much a Conn remembers that its peer has a say in.
type Held struct {
	// Grants are of transfers that no Send has begun; Refs of messages.
	Grants, SendRefs, RecvRefs int
	// ParityMessages are of all sends, Waiting are grants that wait for a slot.
	ParityMessages, Waiting int
	// FreeSend and FreeRecv are slots of the parity pools, of SlotsSend and SlotsRecv.
	FreeSend, SlotsSend, FreeRecv, SlotsRecv int
}

// Held looks at c.
func (c *Conn) Held() Held {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := Held{
		SendRefs: len(c.bySeq), RecvRefs: len(c.recvSeq), Waiting: len(c.parity.waiting),
		FreeSend: len(c.parity.send.free), SlotsSend: c.parity.send.all,
		FreeRecv: len(c.parity.recv.free), SlotsRecv: c.parity.recv.all,
	}
	for _, g := range c.grants {
		h.Grants += len(g)
	}
	for _, t := range c.sends {
		h.ParityMessages += len(t.par)
	}
	return h
}
