// SPDX-License-Identifier: Apache-2.0

package roce

// A PKey is a partition key: a 15-bit partition and, in the top bit, full membership (IBTA 10.9).
type PKey uint16

// DefaultPKey is the partition every port belongs to, with full membership.
const DefaultPKey PKey = 0xffff

const pkeyFull = 0x8000

// Matches reports whether k and o are of the same valid partition and at least one is a full member
// (IBTA 10.9.3).
func (k PKey) Matches(o PKey) bool {
	return k&^pkeyFull != 0 && (k^o)&^pkeyFull == 0 && (k|o)&pkeyFull != 0
}

// A QKey protects a UD queue pair: a datagram is accepted when it carries the queue pair's own
// (IBTA 10.2).
type QKey uint32

const qkeyControlled = 1 << 31

// Controlled reports whether only privileged users may send k: its top bit is set. A verbs user who
// names such a key in a send gets the queue pair's own key on the wire instead (IBTA 10.2).
func (k QKey) Controlled() bool { return k&qkeyControlled != 0 }

// OnWire returns the key that a send with key k from a queue pair with key own puts on the wire.
func (k QKey) OnWire(own QKey) QKey {
	if k.Controlled() {
		return own
	}
	return k
}
