// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// rootKey is one memory key for all messages of a table, on devices with indirect keys. Its list has an entry of
// MaxMessage addresses for each slot and generation. An entry leads to the null key, which swallows what late packets
// bring, or to the key of the message that is exposed there. The keys of messages are indirect, too: the first addresses
// are the message's memory, the rest is the null key's.
//
// The entries are changed by work requests on a queue pair that is connected to itself; no call to the kernel is made, except
// for a message's key when more messages are exposed at once than ever before. An entry changes as a whole, since
// the device copies 64 bytes at a time, and its neighbours are written as they are. The key of a message is changed only while
// nothing leads to it. Table.mu guards all fields.
type rootKey struct {
	d    *Device
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	root *verbs.Mkey
	null verbs.MkeyEntry
	size int64 // MaxMessage
	// entries are what the device has, or will have when it has done what was posted.
	entries []verbs.MkeyEntry
	// spare are keys of messages that nothing leads to. The one that has been unused for longest is taken first.
	spare []*verbs.Mkey
	// made are all keys of messages.
	made []*verbs.Mkey
	// posted counts the updates that were posted, and done those that have completed.
	posted, done uint64
	// suspectedSince is when somebody first waited for an update while done was suspectedAt.
	suspectedSince time.Time
	suspectedAt    uint64
	// broken is the reason why the device makes no updates any more.
	broken error

	updates [2]verbs.MkeyUpdate
	pieces  [verbs.MkeyGroup]verbs.MkeyEntry
	wcs     [16]verbs.WC
}

const (
	// updateDepth is how many updates may be outstanding.
	updateDepth = 64
	// updateInline is the room for an update of one group of entries; fillEntries is how many entries each of the first updates has.
	updateInline = 140
	fillEntries  = 52
	// maxSpan is the largest number of addresses of a message: entries have 32 bits for it.
	maxSpan = 1 << 31
	// updateLimit is how long the device may take for an update before it counts as broken; it needs microseconds.
	updateLimit = time.Second
)

// newRootKey makes the key of a table of so many entries. After an error the caller closes what has been made.
func (d *Device) newRootKey(pd *verbs.PD, entries int, size int64) (*rootKey, error) {
	null, _ := d.ctx.NullMkey()
	k := &rootKey{d: d, pd: pd, size: size, null: verbs.MkeyEntry{Key: null, Length: uint32(size)}}
	if err := k.make(max(entries, verbs.MkeyGroup)); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *rootKey) make(entries int) (err error) {
	if k.size > maxSpan {
		return fmt.Errorf("messages of %d bytes: the device's keys have entries of at most %d: choose a smaller MaxMessage", k.size, maxSpan)
	}
	if k.cq, err = k.d.ctx.CreateCQ(2*updateDepth, nil); err != nil {
		return err
	}
	k.qp, err = k.pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: k.cq, RecvCQ: k.cq, SignalAll: true,
		Cap: verbs.QPCap{MaxSendWR: updateDepth, MaxInline: updateInline}})
	if err != nil {
		return err
	}
	err = k.qp.Connect(verbs.ConnectConfig{Port: k.d.cfg.Port, Path: verbs.AHAttr{DGID: k.d.gid.GID, SGIDIndex: k.d.gid.Index},
		PathMTU: verbs.MTU256, RemoteQPN: k.qp.Num()})
	if err != nil {
		return err
	}
	k.root, err = k.pd.CreateMkey(verbs.MkeyAttr{Entries: entries, EntrySize: uint64(k.size), Length: uint64(entries) * uint64(k.size),
		Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	if err != nil {
		return err
	}
	k.entries = make([]verbs.MkeyEntry, entries)
	for i := range k.entries {
		k.entries[i] = k.null
	}
	for first := 0; first < entries; first += fillEntries {
		u := verbs.MkeyUpdate{Mkey: k.root, First: first, Entries: k.entries[first:min(entries, first+fillEntries)]}
		u.Enable = first+fillEntries >= entries
		k.updates[0] = u
		if err := k.post(1); err != nil {
			return err
		}
	}
	return k.await(k.posted)
}

// expose leads the entry to memory of a region, and returns when the device does so.
func (k *rootKey) expose(entry int, mr *verbs.MR, rg backend.Range) (*verbs.Mkey, error) {
	if k.broken != nil {
		return nil, k.broken
	}
	key, err := k.messageKey()
	if err != nil {
		return nil, err
	}
	clear(k.pieces[:])
	k.pieces[0] = verbs.MkeyEntry{Addr: mr.IOVA() + uint64(rg.Offset), Length: uint32(rg.Length), Key: mr.LKey()}
	if rest := k.size - int64(rg.Length); rest > 0 {
		k.pieces[1] = verbs.MkeyEntry{Length: uint32(rest), Key: k.null.Key}
	}
	k.updates[0] = verbs.MkeyUpdate{Mkey: key, Entries: k.pieces[:], Enable: true}
	k.entries[entry] = verbs.MkeyEntry{Length: uint32(k.size), Key: key.Key()}
	k.updates[1] = k.group(entry)
	if err = k.post(2); err == nil {
		err = k.await(k.posted)
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// messageKey takes a spare key, or makes one.
func (k *rootKey) messageKey() (*verbs.Mkey, error) {
	if len(k.spare) > 0 {
		key := k.spare[0]
		k.spare = k.spare[1:]
		return key, nil
	}
	key, err := k.pd.CreateMkey(verbs.MkeyAttr{Entries: verbs.MkeyGroup, Length: uint64(k.size), Access: verbs.AccessLocalWrite})
	if err != nil {
		return nil, err
	}
	k.made = append(k.made, key)
	return key, nil
}

// group is the update by which an entry of the root key changes.
func (k *rootKey) group(entry int) verbs.MkeyUpdate {
	first := entry &^ (verbs.MkeyGroup - 1)
	return verbs.MkeyUpdate{Mkey: k.root, First: first, Entries: k.entries[first : first+verbs.MkeyGroup]}
}

// revoke begins to lead an entry to the null key. It returns the number of the update that does, for reached.
func (k *rootKey) revoke(entry int) uint64 {
	k.entries[entry] = k.null
	k.updates[0] = k.group(entry)
	if k.post(1) != nil {
		return k.posted + 1 // that update is never made, but reached looks at broken first
	}
	return k.posted
}

// reached reports whether an update is done, so that no packet that arrives from now on is led to the memory that it took
// away. When the device doesn't do updates any more the root key is destroyed, which does the same for all entries.
func (k *rootKey) reached(update uint64) (bool, error) {
	k.reap()
	if k.broken == nil && k.done < update {
		k.suspect()
	}
	if k.broken == nil {
		return k.done >= update, nil
	}
	if err := k.root.Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
		return false, err
	}
	return true, nil
}

// suspect gives the device up if it was removed, or if it has made no update for a long time.
func (k *rootKey) suspect() {
	now := time.Now()
	switch err := k.d.health.get(); {
	case err != nil:
		k.fail(err)
	case k.suspectedAt != k.done || k.suspectedSince.IsZero():
		k.suspectedAt, k.suspectedSince = k.done, now
	case now.Sub(k.suspectedSince) > updateLimit:
		k.fail(k.silence())
	}
}

// post posts the first n of updates, waiting for room.
func (k *rootKey) post(n int) error {
	var deadline time.Time
	for left := k.updates[:n]; k.broken == nil; {
		for i := range left {
			left[i].WRID = k.posted + uint64(i) + 1
		}
		accepted, err := k.qp.UpdateMkeys(left)
		k.posted += uint64(accepted)
		switch left = left[accepted:]; {
		case err == nil:
			return nil
		case !errors.Is(err, verbs.ErrQueueFull):
			k.fail(err)
		case deadline.IsZero():
			deadline = time.Now().Add(updateLimit)
		case time.Now().After(deadline):
			k.fail(k.silence())
		}
		k.reap()
	}
	return k.broken
}

var errNoUpdate = fmt.Errorf("the device does not change memory keys (no completion in %v)", updateLimit)

// silence returns why the device makes no updates. Posting them is no call to the kernel, so nobody has reported that the device was removed.
func (k *rootKey) silence() error {
	if k.d.ctx.Removed() {
		return verbs.ErrRemoved
	}
	return errNoUpdate
}

// await waits until an update is done, which takes the device some microseconds.
func (k *rootKey) await(update uint64) error {
	const spins = 200
	var deadline time.Time
	for i := 0; k.done < update && k.broken == nil; i++ {
		k.reap()
		switch {
		case i < spins:
			runtime.Gosched()
		case deadline.IsZero():
			deadline = time.Now().Add(updateLimit)
		case time.Now().After(deadline):
			k.fail(k.silence())
		default:
			time.Sleep(20 * time.Microsecond)
		}
	}
	return k.broken
}

// reap takes the completions of updates.
func (k *rootKey) reap() {
	for k.broken == nil {
		n, err := k.cq.Poll(k.wcs[:])
		for i := range k.wcs[:n] {
			if wc := &k.wcs[i]; wc.Status != verbs.WCSuccess {
				k.fail(fmt.Errorf("change of a memory key: %v (vendor's code %#x)", wc.Status, wc.VendorErr))
			} else {
				k.done = wc.WRID
			}
		}
		if err != nil {
			k.fail(err)
		}
		if n < len(k.wcs) {
			return
		}
	}
}

func (k *rootKey) fail(err error) {
	if k.broken == nil {
		k.broken = err
	}
}

// close destroys the keys and what changed them.
func (k *rootKey) close() error {
	var errs []error
	if k.root != nil {
		errs = append(errs, k.root.Close())
	}
	for _, key := range k.made {
		errs = append(errs, key.Close())
	}
	if k.qp != nil {
		errs = append(errs, k.qp.Close())
	}
	if k.cq != nil {
		errs = append(errs, k.cq.Close())
	}
	return errors.Join(errs...)
}
