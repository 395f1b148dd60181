// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// table exposes each message by a memory region of its own. Deregistering it is what kills the key,
// and what waits for a packet whose copy has begun.
//
// Each table has a protection domain of its own, so that a peer reaches nothing but what its own table
// exposes, whatever key it tries. The sources of writes must be in it too: see local.
type table struct {
	d  *Device
	pd *verbs.PD
	// locals are the regions that were sent from, by index. Replaced under mu, never changed.
	locals atomic.Pointer[[]*localMR]

	mu         sync.Mutex
	maxMessage int64
	entries    []entry // +checklocks:mu
	qps        int     // queue pairs with this table; +checklocks:mu
	closed     bool    // +checklocks:mu
}

// localMR is a region in a table's protection domain.
type localMR struct {
	region *region
	mr     *verbs.MR
}

// entry is one slot.
type entry struct {
	seq uint64
	// region is nil when the slot is free, mr also when the message has no bytes.
	region *region
	mr     *verbs.MR
	// revoking: the message's address is no longer wanted. stuck: the kernel failed to take it back.
	revoking, stuck bool
}

// NewTable makes an address table. It costs some 40 bytes a slot until messages are exposed.
func (d *Device) NewTable(c backend.TableConfig) (backend.Table, error) {
	if c.Slots < 1 || c.Slots&(c.Slots-1) != 0 || c.MaxMessage < 1 || c.MaxMessage&(c.MaxMessage-1) != 0 {
		return nil, fmt.Errorf("uc: new table: %d slots, messages of up to %d bytes: want powers of two", c.Slots, c.MaxMessage)
	}
	if err := d.health.get(); err != nil {
		return nil, err
	}
	pd, err := d.ctx.AllocPD()
	if err != nil {
		return nil, fmt.Errorf("uc: new table: %w", d.judge(err))
	}
	t := &table{d: d, pd: pd, maxMessage: int64(c.MaxMessage), entries: make([]entry, c.Slots)}
	t.locals.Store(&[]*localMR{})
	return t, nil
}

// local is a region's MR for reading, nil if there is no such region. The first send from a region
// registers it.
func (t *table) local(lkey uint32) (*localMR, error) {
	i := int(lkey) - 1
	if all := *t.locals.Load(); i >= 0 && i < len(all) && all[i] != nil {
		return all[i], nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := regionOf(*t.d.regions.Load(), lkey)
	if r == nil || t.closed {
		return nil, nil
	}
	mr, err := t.pd.RegisterMR(r.mem, verbs.AccessLocalWrite)
	if err != nil {
		return nil, t.d.judge(err)
	}
	l := &localMR{region: r, mr: mr}
	all := slices.Clone(*t.locals.Load())
	for len(all) <= i {
		all = append(all, nil)
	}
	all[i] = l
	if !r.use(t) {
		return nil, mr.Close() // closed meanwhile
	}
	t.locals.Store(&all)
	return l, nil
}

// forget deregisters a region that is being closed.
func (t *table) forget(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(*t.locals.Load())
	if r.index >= len(all) || all[r.index] == nil {
		return nil
	}
	l := all[r.index]
	all[r.index] = nil
	t.locals.Store(&all)
	return l.mr.Close()
}

// Root is 0: there is no key for the whole table.
func (t *table) Root() uint32 { return 0 }

func (t *table) slot(n uint64) *entry { return &t.entries[n&uint64(len(t.entries)-1)] }

// Expose registers the range under a new key. Its address at the peer is the offset of its first byte
// within its page, so that nothing is told of where memory lies.
func (t *table) Expose(n uint64, r backend.Region, rg backend.Range) (rkey uint32, va uint64, err error) {
	reg, ok := r.(*region)
	switch {
	case !ok || reg.d != t.d:
		return 0, 0, errors.New("uc: expose: the region is of another device")
	case reg.access&backend.AccessRemoteWrite == 0:
		return 0, 0, errors.New("uc: expose: the region was registered without AccessRemoteWrite")
	case rg.Offset < 0 || rg.Length < 0 || rg.Offset > reg.Len() || rg.Length > reg.Len()-rg.Offset:
		return 0, 0, fmt.Errorf("uc: expose: [%d, +%d) is outside the region's %d bytes", rg.Offset, rg.Length, reg.Len())
	}
	if int64(rg.Length) > t.maxMessage {
		return 0, 0, fmt.Errorf("uc: expose: %d bytes: the table's largest message has %d", rg.Length, t.maxMessage)
	}
	if err := t.d.health.get(); err != nil {
		return 0, 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.slot(n)
	switch {
	case t.closed:
		return 0, 0, backend.ErrClosed
	case e.region != nil:
		return 0, 0, fmt.Errorf("uc: expose message %d: its slot is still taken by message %d", n, e.seq)
	}
	if err := reg.hold(); err != nil {
		return 0, 0, err
	}
	if rg.Length == 0 { // no key is needed, and none would be granted
		*e = entry{seq: n, region: reg}
		return 0, 0, nil
	}
	mr, err := t.register(reg, rg)
	if err != nil {
		reg.release()
		return 0, 0, fmt.Errorf("uc: expose message %d: %w", n, t.d.judge(err))
	}
	*e = entry{seq: n, mr: mr, region: reg}
	return mr.RKey(), mr.IOVA(), nil
}

func (t *table) register(r *region, rg backend.Range) (*verbs.MR, error) {
	va := (r.mr.IOVA() + uint64(rg.Offset)) % uint64(os.Getpagesize())
	return t.pd.RegisterMRAt(r.mem[rg.Offset:rg.Offset+rg.Length], va, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
}

// StartRevoke notes that the address is to die. The kernel is asked in Revoked, because it may wait.
func (t *table) StartRevoke(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.slot(n); e.region != nil && e.seq == n {
		e.revoking = true
	}
}

// Revoked deregisters what StartRevoke has named, and reports whether it is done. The call lasts
// until the kernel has finished with the packet that it may be writing: on rxe some microseconds,
// and the time to unpin the pages.
func (t *table) Revoked(n uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.slot(n)
	if e.region == nil || e.seq != n {
		return true
	}
	if !e.revoking || e.stuck {
		return false
	}
	if err := e.revoke(); err != nil {
		t.d.log.Error("revoke address", "message", n, "err", err, "consequence", "its memory stays registered until the device is closed")
		return false
	}
	return true
}

// revoke deregisters an entry. A failure is final: the kernel has then given up waiting for a user of
// the region, and asking again would pull it from under that user.
func (e *entry) revoke() error {
	if e.mr != nil {
		if err := e.mr.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			e.stuck = true
			return err
		}
	}
	e.region.release()
	*e = entry{}
	return nil
}

// Close revokes all that is left. The protection domain lasts until the last queue pair with this
// table is closed.
func (t *table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	var errs []error
	for i := range t.entries {
		if e := &t.entries[i]; e.region != nil && !e.stuck {
			errs = append(errs, e.revoke())
		}
	}
	return errors.Join(append(errs, t.dissolve())...)
}

// join counts a queue pair with this table.
func (t *table) join() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return backend.ErrClosed
	}
	t.qps++
	return nil
}

// leave is join's counterpart.
func (t *table) leave() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.qps--
	return t.dissolve()
}

// dissolve frees the protection domain of a closed table without queue pairs, unless the kernel failed
// to take an address back; t.mu is held.
func (t *table) dissolve() error {
	if !t.closed || t.qps > 0 {
		return nil
	}
	var errs []error
	for _, l := range *t.locals.Load() {
		if l != nil {
			l.region.unuse(t)
			errs = append(errs, l.mr.Close())
		}
	}
	t.locals.Store(&[]*localMR{})
	for i := range t.entries {
		if t.entries[i].stuck {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, t.pd.Close())...)
}
