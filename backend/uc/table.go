// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	tables "github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// table exposes messages: on devices with indirect keys by a key for the whole table (rootKey), elsewhere each by a memory
// region of its own. Deregistering that is what kills its key, and what waits for a packet whose copy has begun.
//
// Each table has a protection domain of its own, so that a peer reaches nothing but what its own table
// exposes, whatever key it tries. The sources of writes must be in it too: see local.
type table struct {
	d   *Device
	cfg backend.TableConfig
	pd  *verbs.PD
	// root is nil when each message has a key of its own.
	root *rootKey
	// recalls are used on reliable connections when messages have keys of their own.
	recalls recalls
	// locals are, by index, the regions that writes have been sent from or that root has led to. It is changed while mu is held.
	locals tables.Table[localMR]

	mu      sync.Mutex
	entries []entry // +checklocks:mu
	qps     int     // queue pairs with this table; +checklocks:mu
	closed  bool    // +checklocks:mu
}

// localMR is a region in a table's protection domain.
type localMR struct {
	region *region
	mr     *verbs.MR
}

// entry is one slot.
type entry struct {
	seq uint64
	// region is nil when the slot is free. A message with bytes has an mr, or under a root key a key.
	region *region
	mr     *verbs.MR
	key    *verbs.Mkey
	state  state
	// update is the number of the root key's update that takes the address back, or of the recall of the key, which was made at
	// since.
	update uint64
	since  time.Time
	// signs counts the signs of life of peers that haven't answered the recall, progressAt is when it last grew.
	signs      uint64
	progressAt time.Time
}

// A state is how far a message that is exposed is on its way to a free slot.
type state uint8

const (
	exposed state = iota
	// revoking: its address is no longer wanted.
	revoking
	// stuck: the kernel failed to take it back.
	stuck
)

// NewTable makes an address table. It costs some 100 bytes a slot until messages are exposed; under a root key 16 bytes more
// for each slot and generation, here and in the device.
func (d *Device) NewTable(c backend.TableConfig) (backend.Table, error) {
	if c.Slots < 1 || c.Slots&(c.Slots-1) != 0 || c.MaxMessage < 1 || c.MaxMessage&(c.MaxMessage-1) != 0 {
		return nil, operr.New("new table", d.name(), "%d slots, messages of up to %d bytes: want powers of two", c.Slots, c.MaxMessage)
	}
	c.Generations = max(c.Generations, 1)
	t, err := d.newTable(c, d.caps.RootKey)
	if err != nil {
		return nil, operr.Wrap("new table", d.name(), d.translate(err))
	}
	return t, nil
}

// maxEntries is how many entries a root key may have: requests that change them have 16 bits for their number.
const maxEntries = 1 << 16

func (d *Device) newTable(c backend.TableConfig, root bool) (*table, error) {
	if err := d.health.get(); err != nil {
		return nil, err
	}
	if root && c.Slots > maxEntries/c.Generations {
		return nil, fmt.Errorf("%d slots and %d generations: memory keys have at most %d entries: choose fewer", c.Slots, c.Generations, maxEntries)
	}
	if !root && d.reliable() && c.Slots > maxReliableSlots {
		return nil, fmt.Errorf("%d slots: reliable connections have at most %d: choose fewer", c.Slots, maxReliableSlots)
	}
	pd, err := d.ctx.AllocPD()
	if err != nil {
		return nil, err
	}
	t := &table{d: d, cfg: c, pd: pd, entries: make([]entry, c.Slots)}
	if root {
		if t.root, err = d.newRootKey(pd, c.Slots*c.Generations, int64(c.MaxMessage)); err != nil {
			return nil, errors.Join(err, pd.Close())
		}
	}
	return t, nil
}

// local returns a region's MR for the device's own accesses, or nil if there is no such region. The first send from a region
// registers it.
func (t *table) local(lkey uint32) (*localMR, error) {
	if l := t.locals.Get(lkey - 1); l != nil {
		return l, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.enter(lkey)
}

// enter registers a region, unless it is registered already; t.mu is held.
func (t *table) enter(lkey uint32) (*localMR, error) {
	if l := t.locals.Get(lkey - 1); l != nil {
		return l, nil
	}
	r := t.d.regionOf(lkey)
	if r == nil || t.closed {
		return nil, nil
	}
	mr, err := t.pd.RegisterMR(r.mem, verbs.AccessLocalWrite)
	if err != nil {
		return nil, t.d.translate(err)
	}
	l := &localMR{region: r, mr: mr}
	if !r.use(t) {
		return nil, mr.Close() // the region was closed meanwhile
	}
	t.locals.Set(lkey-1, l)
	return l, nil
}

// forget deregisters a region that is being closed.
func (t *table) forget(r *region) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.locals.Get(r.index)
	if l == nil {
		return nil
	}
	t.locals.Set(r.index, nil)
	return l.mr.Close()
}

// Root returns the key of the whole table, or 0 where there is none.
func (t *table) Root() uint32 {
	if t.root == nil {
		return 0
	}
	return t.root.root.Key()
}

// rootEntry is the message's place in the root key's list.
func (t *table) rootEntry(n uint64) int { return int(n % uint64(t.cfg.Slots*t.cfg.Generations)) }

// slot is the entry of message n; mu is held.
func (t *table) slot(n uint64) *entry { return &t.entries[n&uint64(len(t.entries)-1)] }

// Expose leads the message's address under the root key to the range, and returns when the device does so: a key is there
// before the peer learns of it. Without a root key it registers the range under a new one. Its address at the peer is the
// offset of its first byte within its page then, so that nothing is revealed of where memory lies.
func (t *table) Expose(n uint64, r backend.Region, rg backend.Range) (rkey uint32, va uint64, err error) {
	reg, ok := r.(*region)
	switch {
	case !ok || reg.d != t.d:
		return 0, 0, operr.New("expose", t.d.name(), "the region is of another device")
	case reg.access&backend.AccessRemoteWrite == 0:
		return 0, 0, operr.New("expose", t.d.name(), "the region was registered without AccessRemoteWrite")
	case rg.Offset < 0 || rg.Length < 0 || rg.Offset > reg.Len() || rg.Length > reg.Len()-rg.Offset:
		return 0, 0, operr.New("expose", t.d.name(), "[%d, +%d) is outside the region's %d bytes", rg.Offset, rg.Length, reg.Len())
	}
	if rg.Length > t.cfg.MaxMessage {
		return 0, 0, operr.New("expose", t.d.name(), "%d bytes: the table's largest message has %d", rg.Length, t.cfg.MaxMessage)
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
		return 0, 0, operr.New("expose", fmt.Sprintf("message %d", n), "its slot is still taken by message %d", e.seq)
	}
	if err := reg.hold(); err != nil {
		return 0, 0, err
	}
	*e = entry{seq: n, region: reg}
	if rkey, va, err = t.open(e, n, rg); err != nil {
		*e = entry{}
		reg.release()
		return 0, 0, operr.New("expose", fmt.Sprintf("message %d", n), "%w", t.d.translate(err))
	}
	return rkey, va, nil
}

// open makes the address of an entry; t.mu is held.
func (t *table) open(e *entry, n uint64, rg backend.Range) (rkey uint32, va uint64, err error) {
	switch {
	case t.root != nil:
		rkey, va = t.Root(), backend.RootVA(t.d.caps, t.cfg, n)
		if rg.Length > 0 {
			e.key, err = t.lead(e.region, t.rootEntry(n), rg)
		}
		return rkey, va, err
	case rg.Length == 0: // a message of no bytes needs no key, and the kernel would grant none
		return 0, 0, nil
	}
	if e.mr, err = t.register(e.region, rg); err != nil {
		return 0, 0, err
	}
	return e.mr.RKey(), e.mr.IOVA(), nil
}

// lead makes the root key lead to memory of a region; mu is held.
func (t *table) lead(r *region, entry int, rg backend.Range) (*verbs.Mkey, error) {
	l, err := t.enter(r.LKey())
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, backend.ErrClosed
	}
	return t.root.expose(entry, l.mr, rg)
}

// register registers a range under a key that the peer doesn't take for one that was recalled.
func (t *table) register(r *region, rg backend.Range) (*verbs.MR, error) {
	va := (r.mr.IOVA() + uint64(rg.Offset)) % uint64(os.Getpagesize())
	var mistakable []*verbs.MR
	for {
		mr, err := t.pd.RegisterMRAt(r.mem[rg.Offset:rg.Offset+rg.Length], va, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		if err == nil && t.recalls.remembered(mr.RKey()) {
			mistakable = append(mistakable, mr)
			continue
		}
		for _, m := range mistakable {
			err = errors.Join(err, m.Close())
		}
		return mr, err
	}
}

// StartRevoke has the device take the message's address back. Without a root key it notes that the address is to die: the
// kernel is asked in Revoked, because it may wait.
func (t *table) StartRevoke(n uint64) {
	t.mu.Lock()
	if e := t.slot(n); e.region != nil && e.seq == n {
		t.startRevoke(e)
	}
	t.mu.Unlock()
	t.recalls.ask() // without the lock, which a post may need
}

func (t *table) startRevoke(e *entry) {
	switch {
	case e.state != exposed:
		return
	case e.key != nil:
		e.update = t.root.revoke(t.rootEntry(e.seq))
	case e.mr != nil && t.d.reliable():
		e.update, e.since = t.recalls.add(e.mr.RKey()), time.Now()
		e.progressAt = e.since
	}
	e.state = revoking
}

// Revoked reports whether what StartRevoke has begun is done. Without a root key it deregisters, and the call lasts
// until the kernel has finished with the packet that it may be writing: on rxe some microseconds,
// and the time to unpin the pages. On reliable connections it doesn't deregister before the peers have answered a recall of the key,
// or have given no sign of life for half a second, or have had five seconds.
func (t *table) Revoked(n uint64) bool {
	if t.recalled(n) {
		t.recalls.ask()
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.slot(n)
	if e.region == nil || e.seq != n {
		return true
	}
	if e.state != revoking {
		return false
	}
	done, err := t.revoke(e)
	if err != nil {
		t.d.log.Error("revoke address", "message", n, "err", err, "consequence", "its memory stays registered until the device is closed")
	}
	return done
}

// recalled reports whether the recall of a message's key waits for answers.
func (t *table) recalled(n uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.slot(n)
	if e.region == nil || e.seq != n || e.mr == nil || e.state == exposed || e.since.IsZero() {
		return false
	}
	all, signs := t.recalls.heeded(e.update)
	now := time.Now()
	if signs != e.signs {
		e.signs, e.progressAt = signs, now
	}
	return !all && now.Sub(e.since) < answerWithin && now.Sub(e.progressAt) < silence
}

// revoke frees an entry when its address is dead, which it reports. A failure is final: the kernel has then
// given up waiting for a user of the region, and asking again would take the memory from under that user.
func (t *table) revoke(e *entry) (bool, error) {
	var err error
	switch {
	case e.mr != nil:
		err = e.mr.Close()
	case e.key != nil:
		var done bool
		if done, err = t.root.reached(e.update); !done && err == nil {
			return false, nil
		}
	}
	if err != nil && !errors.Is(err, verbs.ErrClosed) {
		e.state = stuck
		return false, err
	}
	if e.key != nil {
		t.root.spare = append(t.root.spare, e.key)
	}
	e.region.release()
	*e = entry{}
	return true, nil
}

// Close revokes all that is left. The protection domain, and the root key, which leads nowhere then, last until the last
// queue pair with this table is closed.
func (t *table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	for i := range t.entries {
		if e := &t.entries[i]; e.region != nil {
			t.startRevoke(e)
		}
	}
	if t.root != nil {
		_ = t.root.await(t.root.posted) // if the root key is broken, destroying it below has the same effect
	}
	var errs []error
	for i := range t.entries {
		if e := &t.entries[i]; e.region != nil && e.state != stuck {
			_, err := t.revoke(e)
			errs = append(errs, err)
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
	for i, l := range t.locals.All() {
		l.region.unuse(t)
		errs = append(errs, l.mr.Close())
		t.locals.Set(i, nil)
	}
	if t.root != nil {
		errs = append(errs, t.root.close())
	}
	for i := range t.entries {
		if t.entries[i].state == stuck {
			return errors.Join(errs...)
		}
	}
	return errors.Join(append(errs, t.pd.Close())...)
}
