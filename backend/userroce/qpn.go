// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/operr"
)

// Queue pair numbers have a 16-bit index in their low bits, whose lowest bits are the worker that should
// receive, and eight random bits above, so that packets for a queue pair that is gone rarely find its
// successor. Looking a number up takes two loads and a comparison, without locks.
const (
	qpnIndexBits = 16
	qpnLeafBits  = 8
	qpnIndexMask = 1<<qpnIndexBits - 1
	qpnLeafMask  = 1<<qpnLeafBits - 1

	// QPNs 0 and 1 are for management, and all ones is multicast (IBTA 3.5.3, 10.5.1).
	minQPN       = 2
	multicastQPN = 1<<24 - 1
)

// A qpnTable finds queue pairs by their numbers. Its leaves are made when they are first needed, and stay.
type qpnTable struct {
	leaves [1 << (qpnIndexBits - qpnLeafBits)]atomic.Pointer[qpnLeafTable]
	next   [MaxWorkers]uint32 // where to look for a free index, by worker; guarded by Device.mu
}

type qpnLeafTable struct {
	qps [qpnLeafMask + 1]atomic.Pointer[queuePair]
	// last has the random bits of each index's latest number; guarded by Device.mu.
	last [qpnLeafMask + 1]uint8
}

// lookup returns the open queue pair with number qpn, or nil.
func (t *qpnTable) lookup(qpn uint32) *queuePair {
	leaf := t.leaves[qpn&qpnIndexMask>>qpnLeafBits].Load()
	if leaf == nil {
		return nil
	}
	q := leaf.qps[qpn&qpnLeafMask].Load()
	if q == nil || q.qpn != qpn {
		return nil
	}
	return q
}

// insert gives q a number whose bits under mask are worker, and publishes it. It goes round all indices
// before it uses one again. Device.mu is held.
func (t *qpnTable) insert(q *queuePair, worker int, mask uint32, random func() uint32) error {
	stride := mask + 1
	for range (qpnIndexMask + 1) / int(stride) {
		index := t.next[worker]&qpnIndexMask | uint32(worker)
		t.next[worker] = index + stride
		slot := &t.leaves[index>>qpnLeafBits]
		leaf := slot.Load()
		if leaf == nil {
			leaf = new(qpnLeafTable)
			slot.Store(leaf)
		}
		place := &leaf.qps[index&qpnLeafMask]
		if place.Load() != nil {
			continue
		}
		last := &leaf.last[index&qpnLeafMask]
		for {
			r := uint8(random())
			q.qpn = uint32(r)<<qpnIndexBits | index
			if r != *last && q.qpn >= minQPN && q.qpn != multicastQPN {
				*last = r
				break
			}
		}
		place.Store(q)
		return nil
	}
	return operr.New("new queue pair", "userroce", "all %d queue pairs of worker %d are in use: open fewer connections, or with fewer channels or generations", (qpnIndexMask+1)/int(stride), worker)
}

// remove takes q out. Device.mu is held.
func (t *qpnTable) remove(q *queuePair) {
	leaf := t.leaves[q.qpn&qpnIndexMask>>qpnLeafBits].Load()
	leaf.qps[q.qpn&qpnLeafMask].CompareAndSwap(q, nil)
}

// all calls f for each open queue pair.
func (t *qpnTable) all(f func(*queuePair)) {
	for i := range t.leaves {
		leaf := t.leaves[i].Load()
		if leaf == nil {
			continue
		}
		for j := range leaf.qps {
			if q := leaf.qps[j].Load(); q != nil {
				f(q)
			}
		}
	}
}
