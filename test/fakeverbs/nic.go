// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "time"

// step looks at all doorbells and works on all queues once. It reports whether there was anything to do.
func (d *Device) step() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.advance()
}

// advance is step with mu held.
func (d *Device) advance() bool {
	if d.removed {
		return false
	}
	busy := false
	d.list()
	for _, u := range d.doorbells {
		busy = d.look(u) || busy
	}
	if d.port != nil {
		busy = d.listen() || busy
	}
	now := time.Now()
	busy = d.host.bringLate(now) || busy
	busy = d.placeDue(now) || busy
	d.announce()
	for _, q := range d.pairs {
		busy = d.work(q, now) || busy
	}
	return busy
}

// list makes the lists of what the device looks at in each step, which is most of what it does, from the maps that have changed.
func (d *Device) list() {
	if d.listed {
		return
	}
	d.listed = true
	d.doorbells, d.pairs = d.doorbells[:0], d.pairs[:0]
	for _, c := range d.contexts {
		for _, u := range c.uars {
			d.doorbells = append(d.doorbells, u)
		}
	}
	for _, q := range d.qps {
		d.pairs = append(d.pairs, q)
	}
}

// burst is how many requests of a QP are done before the next one's turn.
const burst = 32

// work does requests of a QP's send queue, and in state ERROR flushes both queues.
func (d *Device) work(q *queuePair, now time.Time) bool {
	if q.state == stateError {
		return d.flush(q)
	}
	if q.state < stateRTS || q.waiting && now.Before(q.retryAt) {
		return false
	}
	busy := false
	for range burst {
		if q.sqDone == q.sqPosted || q.state != stateRTS {
			break
		}
		w, ok := d.driver.fetch(q)
		if !ok {
			d.fail(q, w, synLocalQPOp)
			return true
		}
		v := d.execute(q, w, now)
		if v == again {
			return busy
		}
		busy = true
		d.stats.WorkRequests++
		q.waiting = false
		if v != good {
			d.fail(q, w, v)
			return true
		}
		d.finish(q, w)
	}
	return busy
}

// workRequest is an entry of a send queue, in the engine's form, which is mlx5's.
type workRequest struct {
	// id is what its completion names it by.
	id        uint64
	opcode    byte
	blocks    uint16
	signal    bool
	solicited bool
	imm       uint32
	// body is what follows the control segment: the segments of the operation, and those of the data.
	body []byte
	// bytes is what a read or an atomic brought.
	bytes uint32
}

// finish completes a request that went well.
func (d *Device) finish(q *queuePair, w workRequest) {
	d.take(q, w.blocks)
	if w.signal {
		d.complete(q.sendCQ, completion{q: q, kind: cqeRequest, id: w.id, opcode: w.opcode, bytes: w.bytes})
	}
}

// take gives the program the places of what was done in a send queue back.
func (d *Device) take(q *queuePair, blocks uint16) {
	q.sqDone += blocks
	d.driver.taken(q)
}

// fail completes a request with an error, and the QP goes to ERROR.
func (d *Device) fail(q *queuePair, w workRequest, syndrome verdict) {
	d.take(q, max(w.blocks, 1))
	d.errorCQE(q, q.sendCQ, cqeReqError, w.id, w.opcode, syndrome)
	q.enter(stateError)
}

func (d *Device) errorCQE(q *queuePair, cq *completionQueue, kind byte, id uint64, opcode byte, syndrome verdict) {
	d.complete(cq, completion{q: q, kind: kind, id: id, opcode: opcode, syndrome: syndrome, solicited: true})
}

// flush completes what is left in both queues with flush errors.
func (d *Device) flush(q *queuePair) bool {
	busy := false
	for q.sqDone != q.sqPosted {
		w, _ := d.driver.fetch(q)
		d.take(q, min(max(w.blocks, 1), q.sqPosted-q.sqDone))
		d.errorCQE(q, q.sendCQ, cqeReqError, w.id, w.opcode, synFlush)
		busy = true
	}
	if q.srq != nil {
		return busy
	}
	for {
		id, _, ok := d.driver.receive(q)
		if !ok {
			return busy
		}
		d.errorCQE(q, q.recvCQ, cqeRespError, id, 0, synFlush)
		busy = true
	}
}

// invalidLKey ends a scatter list, whose entries are mlx5's: length, key and address.
const invalidLKey = 0x100

// pageIn brings the memory of a receive request in, and tells whether some was absent.
func (d *Device) pageIn(wqe []byte) (faulted bool) {
	for ; len(wqe) >= 16 && be.Uint32(wqe[4:]) != invalidLKey; wqe = wqe[16:] {
		if k := d.keys[be.Uint32(wqe[4:])>>8]; k != nil && k.absent {
			k.absent, faulted = false, true
		}
	}
	return faulted
}

// scatter finds the memory of a receive request. It fails when a key is dead.
func (d *Device) scatter(q *queuePair, wqe []byte) (pieces []piece, ok bool) {
	for ; len(wqe) >= 16; wqe = wqe[16:] {
		n, lkey, addr := be.Uint32(wqe), be.Uint32(wqe[4:]), be.Uint64(wqe[8:])
		if lkey == invalidLKey {
			break
		}
		if pieces, ok = d.translate(pieces, lkey, q.pd.number, addr, n, localWrite, 0); !ok {
			return nil, false
		}
	}
	return pieces, true
}
