// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
)

// maxSlots bounds TableConfig.Slots, and so the memory of an idle table, 16 bytes a slot.
const maxSlots = 1 << 16

// table is the address table of one sdr QP: a root key, under which message n has the addresses
// [n·MaxMessage, (n+1)·MaxMessage) modulo 2^64.
type table struct {
	d        *Device
	rkey     uint32
	slotMask uint64
	shift    uint   // log2 of MaxMessage
	vaMask   uint64 // MaxMessage - 1
	slots    []slot

	mu     sync.Mutex
	closed bool     // +checklocks:mu
	owned  int      // slots with an owner; +checklocks:mu
	free   []*entry // +checklocks:mu
}

// slot is one place of a table. live is the entry that workers see, or nil for none. owner is the entry until
// its fence is down.
type slot struct {
	live  atomic.Pointer[entry]
	owner *entry // guarded by table.mu
}

// entry exposes memory to one message. What workers read of it doesn't change while one can see it.
type entry struct {
	base   uint64 // address of byte 0: the sequence modulo 2^64/MaxMessage is in it
	mem    []byte
	seq    uint64
	region *region

	revoked bool  // guarded by table.mu, as is what follows
	fence   fence // of revoked entries
}

// NewTable makes an address table. Slots·MaxMessage must not exceed 2^64. Generations has no meaning
// here, because addresses carry the whole sequence.
func (d *Device) NewTable(c backend.TableConfig) (backend.Table, error) {
	switch {
	case c.Slots < 1 || c.Slots > maxSlots || c.Slots&(c.Slots-1) != 0:
		return nil, operr.New("new table", "userroce", "table with %d slots: choose a power of two up to %d", c.Slots, maxSlots)
	case c.MaxMessage < 1 || c.MaxMessage&(c.MaxMessage-1) != 0:
		return nil, operr.New("new table", "userroce", "table for messages of %d bytes: choose a power of two", c.MaxMessage)
	}
	shift := uint(bits.TrailingZeros64(uint64(c.MaxMessage)))
	if shift+uint(bits.TrailingZeros(uint(c.Slots))) > 64 {
		return nil, operr.New("new table", "userroce", "table with %d slots of %v exceeds the address space", c.Slots, c.MaxMessage)
	}
	t := &table{
		d: d, slotMask: uint64(c.Slots - 1), shift: shift, vaMask: uint64(c.MaxMessage) - 1,
		slots: make([]slot, c.Slots),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, backend.ErrClosed
	}
	t.rkey = d.random32()
	d.tables[t] = struct{}{}
	return t, nil
}

// Root returns the key of the table.
func (t *table) Root() uint32 { return t.rkey }

// Expose maps message n to a range of a region.
func (t *table) Expose(n uint64, r backend.Region, rg backend.Range) (rkey uint32, va uint64, err error) {
	reg, ok := r.(*region)
	switch {
	case !ok || reg.d != t.d:
		return 0, 0, operr.New("expose", "userroce", "the region is of another device")
	case reg.access&backend.AccessRemoteWrite == 0:
		return 0, 0, operr.New("expose", "userroce", "the region was registered without AccessRemoteWrite")
	case rg.Offset < 0 || rg.Length < 0 || rg.Offset > reg.Len() || rg.Length > reg.Len()-rg.Offset:
		return 0, 0, operr.New("expose", "userroce", "%d bytes at %d: the region has %d", int64(rg.Length), int64(rg.Offset), int64(reg.Len()))
	case uint64(rg.Length) > t.vaMask+1:
		return 0, 0, operr.New("expose", "userroce", "%d bytes: a message has at most %d", int64(rg.Length), t.vaMask+1)
	}
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	if reg.closed || t.d.closed {
		return 0, 0, backend.ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, 0, backend.ErrClosed
	}
	s := &t.slots[n&t.slotMask]
	t.reap(s)
	if s.owner != nil {
		return 0, 0, operr.New("expose", fmt.Sprintf("message %d", n), "its slot still belongs to message %d", s.owner.seq)
	}
	e := t.newEntry()
	e.base, e.seq, e.region = n<<t.shift, n, reg
	e.mem = reg.mem[rg.Offset : rg.Offset+rg.Length : rg.Offset+rg.Length]
	reg.exposed.Add(1)
	s.owner = e
	t.owned++
	s.live.Store(e)
	return t.rkey, e.base, nil
}

// newEntry takes an entry that was used before, if there is one; mu is held.
func (t *table) newEntry() *entry {
	if k := len(t.free); k > 0 {
		e := t.free[k-1]
		t.free = t.free[:k-1]
		return e
	}
	return new(entry)
}

// lookup returns the entry that has the address va, or nil. Workers call it.
func (t *table) lookup(va uint64) *entry {
	if e := t.slots[va>>t.shift&t.slotMask].live.Load(); e != nil && e.base == va&^t.vaMask {
		return e
	}
	return nil
}

// StartRevoke makes the address of n dead.
func (t *table) StartRevoke(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.slots[n&t.slotMask]
	if s.owner != nil && s.owner.seq == n {
		t.revoke(s)
	}
}

// revoke hides the owner of s from workers, and records which of them may have seen it. t.mu is held.
func (t *table) revoke(s *slot) {
	if s.owner.revoked {
		return
	}
	s.owner.revoked = true
	s.live.Store(nil)
	s.owner.fence.raise(t.d.receivers)
}

// Revoked reports whether no byte can be written through n any more.
func (t *table) Revoked(n uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.slots[n&t.slotMask]
	t.reap(s)
	return s.owner == nil || s.owner.seq != n
}

// reap frees s when its message has been revoked and the fence is down. t.mu is held.
func (t *table) reap(s *slot) {
	e := s.owner
	if e == nil || !e.revoked || !e.fence.down(t.d.receivers) {
		return
	}
	// No worker refers to e any more, so it may change.
	e.region.exposed.Add(-1)
	*e = entry{}
	t.free = append(t.free, e)
	s.owner = nil
	t.owned--
}

func (t *table) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Close revokes all that is left.
func (t *table) Close() error {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	t.closeLocked()
	return nil
}

// closeLocked is Close where Device.mu is held.
func (t *table) closeLocked() {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		for i := range t.slots {
			if t.slots[i].owner != nil {
				t.revoke(&t.slots[i])
			}
		}
	}
	t.mu.Unlock()
	t.d.reapTable(t)
}

// reapTable frees those slots of t whose fences are down, and forgets t when it is closed and none is left. Device.mu is held.
func (d *Device) reapTable(t *table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.slots {
		t.reap(&t.slots[i])
	}
	if t.closed && t.owned == 0 {
		delete(d.tables, t)
	}
}
