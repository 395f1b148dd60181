// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
)

// Mkey is an indirect memory key (mlx5dv_mkey of rdma-core): its addresses, from 0 on, lead to memory of other keys,
// by a list of entries that send requests change, without the kernel. Only mlx5 has them.
type Mkey struct {
	object
	part part
	pd   *PD
	attr MkeyAttr
	key  uint32
}

// MkeyAttr says what Mkey is made.
type MkeyAttr struct {
	// Entries is the length of the list, a multiple of MkeyGroup.
	Entries int
	// EntrySize is the number of bytes of each entry, a power of two, which the device finds by a shift (KSM). With 0 each
	// entry has a length of its own, and the device goes through the list (KLM).
	EntrySize uint64
	// Length is the number of addresses; an access beyond is an error.
	Length uint64
	// Access are the rights: AccessLocalWrite, AccessRemoteWrite, AccessRemoteRead, AccessRemoteAtomic. The keys
	// below need local rights only.
	Access Access
}

// MkeyGroup is how many entries change at a time, from a multiple of it on.
const MkeyGroup = mlx5.EntryGroup

// MkeyEntry is an entry of a key's list: memory of another key of the same PD, from an address of that. The null key
// (Context.NullMkey) takes any address: what is written to it vanishes, and it reads as zeros.
type MkeyEntry struct {
	Addr uint64
	// Length is the entry's number of bytes, unless the key has MkeyAttr.EntrySize.
	Length uint32
	Key    uint32
}

// MkeyUpdate changes entries of a key.
type MkeyUpdate struct {
	// WRID comes back in the completion, of WCDriver1.
	WRID uint64
	Mkey *Mkey
	// First is the first entry to change and a multiple of MkeyGroup, as is the number of entries. Until the update has
	// completed, the device may use the old entries, the new, or some of each.
	First   int
	Entries []MkeyEntry
	// Enable lets the key be used from then on. A new key isn't.
	Enable bool
	// Signaled asks for a completion.
	Signaled bool
}

// NullMkey is the null key: memory that takes everything and has nothing. ok is false where the device has none.
func (c *Context) NullMkey() (key uint32, ok bool) {
	if p, is := c.provider.(*mlx5Provider); is {
		return p.nullKey()
	}
	return 0, false
}

// HasMkeys tells whether the device was opened so that indirect keys can be asked for. Its firmware may refuse them
// still.
func (c *Context) HasMkeys() bool {
	p, ok := c.provider.(*mlx5Provider)
	return ok && p.devx
}

// CreateMkey makes an indirect key. No access works until an update with Enable has completed.
func (p *PD) CreateMkey(attr MkeyAttr) (*Mkey, error) {
	o, err := p.ctx.attach("Mkey", &p.object)
	if err != nil {
		return nil, err
	}
	m := &Mkey{object: o, pd: p, attr: attr}
	if err := m.create(); err != nil {
		o.abandon()
		return nil, &Error{Op: "create Mkey", Object: fmt.Sprintf("%s, %d entries", p.ctx.info.Name, attr.Entries), Err: err, Fix: mkeyFix(&attr, err)}
	}
	p.ctx.publish(m)
	return m, nil
}

func (m *Mkey) create() error {
	p, ok := m.ctx.provider.(*mlx5Provider)
	if !ok || !p.devx {
		return unix.EOPNOTSUPP
	}
	if a := &m.attr; a.Entries < 1 || a.Entries > math.MaxUint32 || a.Entries%MkeyGroup != 0 || a.EntrySize&(a.EntrySize-1) != 0 {
		return unix.EINVAL
	}
	part := &mlx5Mkey{m: m}
	m.part = part
	return part.create()
}

func mkeyFix(a *MkeyAttr, err error) string {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return "the device has no indirect keys (DEVX)"
	case a.Entries < 1 || a.Entries%MkeyGroup != 0:
		return fmt.Sprintf("the number of entries must be a multiple of %d", MkeyGroup)
	case a.Entries > math.MaxUint32:
		return "the number of entries has at most 32 bits"
	case a.EntrySize&(a.EntrySize-1) != 0:
		return "the size of entries must be a power of two"
	case errors.Is(err, unix.EREMOTEIO):
		return "the device's firmware refuses such a key: fewer entries may be possible"
	}
	return fix(err)
}

// Key is the key, for the peer and for local use.
func (m *Mkey) Key() uint32 { return m.key }

// Close destroys the key: from then on it is unknown to the device.
func (m *Mkey) Close() error {
	return m.close("destroy Mkey", func() error { return m.part.free() })
}

// UpdateMkeys posts changes of keys, by one doorbell, and returns how many the queue took: with ErrQueueFull the rest is
// to be posted again after the CQ was polled. They take effect in their order. The QP must be RC, of the keys' PD and in
// state RTS; it may be connected to itself. Room for an update is that of a request with 76 + 16·entries bytes of inline data.
func (q *QP) UpdateMkeys(updates []MkeyUpdate) (int, error) {
	q.sendMu.Lock()
	defer q.sendMu.Unlock()
	if q.gone {
		return 0, ErrClosed
	}
	if s := q.State(); s < RTS {
		return 0, stateError(q, "update Mkeys", s)
	}
	p, ok := q.part.(*mlx5QP)
	if !ok || q.typ != RC {
		return 0, &Error{Op: "update Mkeys", Object: q.String(), Err: unix.EOPNOTSUPP, Fix: "only RC queue pairs of mlx5 do that"}
	}
	return p.updateMkeys(updates)
}
