// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"fmt"
	"slices"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

// A table keeps its entries in pages that are made when first used: an idle QP
// stays small whatever its limits.
type table struct {
	dev    *Device
	caps   backend.Caps
	cfg    backend.TableConfig
	root   uint32
	pages  [][]entry
	closed bool
}

const pageEntries = 64

type entryState uint8

const (
	free entryState = iota
	exposed
	revoking // packets land until deadAt
)

type entry struct {
	n      uint64
	region *region
	rg     backend.Range
	deadAt netsim.Time
	rkey   uint32
	state  entryState
}

// NewTable implements backend.Device.
func (d *Device) NewTable(c backend.TableConfig) (backend.Table, error) {
	if d.closed {
		return nil, backend.ErrClosed
	}
	if err := checkTable(c); err != nil {
		return nil, d.errorf("new table", "%w", err)
	}
	t := &table{dev: d, caps: d.Caps(), cfg: c, pages: make([][]entry, (c.Slots+pageEntries-1)/pageEntries)}
	if t.caps.RootKey {
		k, ok := d.keys.add(keyUse{table: t, root: true})
		if !ok {
			return nil, d.noKeys()
		}
		t.root = k
	}
	d.tables = append(d.tables, t)
	return t, nil
}

func (d *Device) noKeys() error {
	return d.errorf("new table", "out of keys: at most %d may be in use at a time", maxKeys)
}

func checkTable(c backend.TableConfig) error {
	if c.Slots < 1 || c.Slots > 1<<24 || c.Slots&(c.Slots-1) != 0 {
		return fmt.Errorf("table of %d slots: must be a power of two up to 2^24", c.Slots)
	}
	if c.Generations < 1 || c.Generations > 1<<16 || c.Generations&(c.Generations-1) != 0 {
		return fmt.Errorf("table of %d generations: must be a power of two up to 65536", c.Generations)
	}
	if c.MaxMessage < 1 || c.MaxMessage&(c.MaxMessage-1) != 0 {
		return fmt.Errorf("table for messages of %d bytes: must be a power of two", int64(c.MaxMessage))
	}
	if all := uint64(c.Slots) * uint64(c.Generations); uint64(c.MaxMessage) > 1<<63/all {
		return fmt.Errorf("table of %d slots, %d generations and messages of %v exceeds the 2^63 bytes that can be addressed", c.Slots, c.Generations, c.MaxMessage)
	}
	return nil
}

func (t *table) Root() uint32 { return t.root }

// entry returns the entry of a slot, nil when its page has never been used.
func (t *table) entry(slot uint64) *entry {
	if p := t.pages[slot/pageEntries]; p != nil {
		return &p[slot%pageEntries]
	}
	return nil
}

func (t *table) slot(n uint64) uint64 { return n & uint64(t.cfg.Slots-1) }

func (t *table) Expose(n uint64, r backend.Region, rg backend.Range) (uint32, uint64, error) {
	reg, ok := r.(*region)
	switch {
	case t.closed:
		return 0, 0, backend.ErrClosed
	case !ok || reg.dev != t.dev || reg.closed:
		return 0, 0, t.dev.errorf(fmt.Sprintf("expose message %d on", n), "the region is not one of this device, or closed")
	case reg.access&backend.AccessRemoteWrite == 0:
		return 0, 0, t.dev.errorf(fmt.Sprintf("expose message %d on", n), "the region was not registered with AccessRemoteWrite")
	case rg.Offset < 0 || rg.Length < 0 || rg.Offset > reg.size-rg.Length:
		return 0, 0, t.dev.errorf(fmt.Sprintf("expose message %d on", n), "range of %d bytes at %d exceeds the region of %v", int64(rg.Length), int64(rg.Offset), reg.size)
	case rg.Length > t.cfg.MaxMessage:
		return 0, 0, t.dev.errorf(fmt.Sprintf("expose message %d on", n), "%v is more than the table's largest message, %v", rg.Length, t.cfg.MaxMessage)
	}
	slot := t.slot(n)
	page := &t.pages[slot/pageEntries]
	if *page == nil {
		*page = make([]entry, min(pageEntries, t.cfg.Slots))
	}
	e := &(*page)[slot%pageEntries]
	if t.settle(e); e.state != free {
		return 0, 0, t.dev.errorf(fmt.Sprintf("expose message %d on", n), "its slot still shows message %d: wait until that is revoked", e.n)
	}
	rkey, va := t.root, backend.RootVA(t.caps, t.cfg, n)
	if !t.caps.RootKey {
		if rkey, ok = t.dev.keys.add(keyUse{table: t, n: n}); !ok {
			return 0, 0, t.dev.noKeys()
		}
		// As on a verbs device, where addresses are those of the memory.
		va = uint64(reg.lkey)<<40 + uint64(rg.Offset)
	}
	*e = entry{n: n, region: reg, rg: rg, rkey: rkey, state: exposed}
	reg.exposed++
	return rkey, va, nil
}

func (t *table) StartRevoke(n uint64) {
	if e := t.entry(t.slot(n)); e != nil && e.n == n && e.state == exposed {
		t.revoke(e)
	}
}

func (t *table) revoke(e *entry) {
	w := t.dev.world
	e.state, e.deadAt = revoking, w.Now.Add(netsim.Span(w.cfg.RevokeTime))
	e.region.exposed--
	e.region.busyUntil = max(e.region.busyUntil, e.deadAt)
	if e.deadAt > w.Now {
		w.WakeAt(e.deadAt)
	}
	t.settle(e)
}

// settle frees an entry whose revocation is over.
func (t *table) settle(e *entry) {
	if e.state != revoking || t.dev.world.Now < e.deadAt {
		return
	}
	if !t.caps.RootKey {
		t.dev.keys.remove(e.rkey)
	}
	e.state, e.region = free, nil
}

func (t *table) Revoked(n uint64) bool {
	e := t.entry(t.slot(n))
	if e == nil || e.n != n {
		return true
	}
	t.settle(e)
	return e.state == free
}

func (t *table) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	for _, page := range t.pages {
		for i := range page {
			if page[i].state == exposed {
				t.revoke(&page[i])
			}
		}
	}
	d := t.dev
	if t.caps.RootKey {
		d.keys.remove(t.root)
	}
	d.tables = slices.DeleteFunc(d.tables, func(x *table) bool { return x == t })
	return nil
}

// find returns the entry that a write of length bytes to (rkey, va) reaches, and
// the offset within its range; or the reason why there is none.
func (t *table) find(rkey uint32, va uint64, length uint32) (e *entry, off units.Bytes, why backend.DropReason, ok bool) {
	use := t.dev.keys.find(rkey)
	if use.table != t {
		return nil, 0, backend.DropKey, false
	}
	if !use.root {
		e = t.entry(t.slot(use.n))
		off = units.Bytes(va) - units.Bytes(uint64(e.region.lkey)<<40) - e.rg.Offset
	} else {
		e = t.entry(va / uint64(t.cfg.MaxMessage) & uint64(t.cfg.Slots-1))
		off = units.Bytes(va & uint64(t.cfg.MaxMessage-1))
	}
	if e == nil {
		return nil, 0, backend.DropLate, false
	}
	t.settle(e)
	switch {
	case e.state == free, use.root && backend.RootVA(t.caps, t.cfg, e.n) != va-uint64(off):
		return nil, 0, backend.DropLate, false
	case length > 0 && (off < 0 || off > e.rg.Length-units.Bytes(length)):
		return e, off, backend.DropBounds, false
	}
	return e, off, 0, true
}
