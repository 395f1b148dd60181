// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"errors"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// postBatch is how many writes go to the kernel by one doorbell.
const postBatch = 64

// batches lends out the requests that a post fills in. If each queue pair had its own, it would have to keep
// 9 KiB for them.
var batches = sync.Pool{New: func() any { return new([postBatch]verbs.SendWR) }}

// silent is the WRID of sends that nobody waits for. They complete when they fail; some complete in any case (signalParts).
const silent = 1<<64 - 1

// signalParts: in each of so many parts of a send queue a request is signalled, even if nobody waits for it. NICs free the
// places of requests only when a later one completes; rxe doesn't need that.
const signalParts = 4

// PostWrites posts writes in batches of one doorbell each. It takes fewer than all when the send queue
// is full. No WRID may be 2^64-2 or 2^64-1.
func (q *queuePair) PostWrites(_ units.Instant, w []backend.Write) (int, error) {
	if err := q.usable(); err != nil {
		return 0, err
	}
	if q.dg != nil {
		return 0, operr.New("post writes", q.d.name(), "not a UC queue pair")
	}
	batch := batches.Get().(*[postBatch]verbs.SendWR)
	defer batches.Put(batch)
	accepted := 0
	for accepted < len(w) {
		k, bad, err := q.postBatch(batch, w[accepted:])
		accepted += k
		q.recordSignals(batch[:k])
		switch {
		case errors.Is(err, verbs.ErrQueueFull):
			return accepted, nil
		case err != nil:
			return accepted, operr.Wrap("post writes", q.d.name(), q.d.translate(err))
		case bad != nil:
			return accepted, bad
		}
	}
	return accepted, nil
}

func (q *queuePair) count(packets int, bytes uint64) {
	if packets > 0 {
		q.d.counters.packetsSent.Add(uint64(packets))
		q.d.counters.bytesSent.Add(bytes)
	}
}

// postBatch posts the first writes of w and returns how many the device took; bad says what is wrong with the one after these.
func (q *queuePair) postBatch(batch *[postBatch]verbs.SendWR, w []backend.Write) (accepted int, bad, err error) {
	if q.talk != nil {
		q.talk.mu.Lock()
		defer q.talk.mu.Unlock()
	}
	n, bad := q.fill(batch, w)
	accepted, err = q.qp.PostSend(batch[:n])
	late, bytes := countPosted(batch[:accepted])
	q.d.counters.recalled.Add(uint64(late))
	q.count(accepted-late, bytes)
	return accepted, bad, err
}

// countPosted counts the requests that stand for writes through recalled keys, and the bytes of the others.
func countPosted(posted []verbs.SendWR) (late int, bytes uint64) {
	for i := range posted {
		if posted[i].Opcode == verbs.OpRDMAWrite {
			late++
		}
		bytes += uint64(posted[i].Local.Length)
	}
	return late, bytes
}

// fill translates a batch; bad says what is wrong with the write after the last one filled. A write through a key that the peer has
// recalled becomes one of nothing to nowhere, which keeps its place among the completions. talk.mu is held, if there is one.
func (q *queuePair) fill(batch *[postBatch]verbs.SendWR, w []backend.Write) (n int, bad error) {
	limit := uint32(q.mtu.Bytes())
	unsignaled := q.unsignaled
	for n = range w[:min(len(w), postBatch)] {
		x, wr := &w[n], &batch[n]
		*wr = verbs.SendWR{WRID: silent, Opcode: verbs.OpRDMAWriteWithImm, Imm: x.Imm, RKey: x.RKey, RemoteAddr: x.VA}
		unsignaled++
		if x.Signaled || unsignaled*signalParts > q.sendDepth {
			wr.Flags, unsignaled = verbs.SendSignaled, 0
		}
		if x.Signaled {
			wr.WRID = x.WRID
		}
		if q.talk != nil && q.talk.gone.has(x.RKey) {
			wr.Opcode, wr.Imm, wr.RKey, wr.RemoteAddr = verbs.OpRDMAWrite, 0, 0, 0
			continue
		}
		if x.Length == 0 {
			continue
		}
		l, err := q.table.local(x.LKey)
		if err != nil {
			return n, operr.New("post writes", q.d.name(), "register the source of a write: %w", err)
		}
		if l == nil || x.Length > limit || x.Offset < 0 || x.Offset > l.region.Len() || units.Bytes(x.Length) > l.region.Len()-x.Offset {
			return n, operr.New("post writes", q.d.name(), "%d bytes at %d of region %d: no such range of registered memory, or more than the MTU %d", x.Length, x.Offset, x.LKey, limit)
		}
		wr.Local = verbs.SGE{Addr: l.mr.IOVA() + uint64(x.Offset), Length: x.Length, LKey: l.mr.LKey()}
	}
	return min(len(w), postBatch), nil
}

// recordSignals counts the requests that were posted after the last signalled one.
func (q *queuePair) recordSignals(posted []verbs.SendWR) {
	for i := len(posted) - 1; i >= 0; i-- {
		if posted[i].Flags&verbs.SendSignaled != 0 {
			q.unsignaled = len(posted) - 1 - i
			return
		}
	}
	q.unsignaled += len(posted)
}

// sent reports a send completion. Sends that nobody waits for are reported only when they have failed.
func (q *queuePair) sent(wc *verbs.WC, out *backend.Completion) int {
	status := backend.StatusOK
	switch wc.Status {
	case verbs.WCSuccess:
	case verbs.WCFlushErr:
		status = backend.StatusFlushed
		q.sendFailed(wc)
	default:
		status = backend.StatusError
		q.sendFailed(wc)
	}
	switch wc.WRID {
	case silent:
		return 0
	case spoken:
		q.talk.flying.Add(-1)
		return 0
	}
	*out = backend.Completion{WRID: wc.WRID, Cookie: q.cookie, Kind: backend.KindSent, Status: status}
	return 1
}

// sendFailed records a failure, which has taken the queue pair to its error state.
func (q *queuePair) sendFailed(wc *verbs.WC) {
	if q.dg != nil {
		q.dg.failed()
		return
	}
	q.failStatus(wc.Status, operr.New("post writes", q.d.name(), "QP %d can't send any more: %v: is the network interface%s up, with its address and a route to the peer? Connect anew",
		wc.QPN, wc.Status, q.d.netdev()))
}
