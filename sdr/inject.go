// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

// postBatch is how many writes go to the device in one call.
const postBatch = 60

// wordPackets is the run of packets that goes out on one channel before the
// next channel's turn: one word of the receiver's bitmap.
const wordPackets = 64

// An injection is a run of a message's packets that the device has not completed.
type injection struct {
	m    *sendMsg
	upTo uint64 // the channel's posted count after it: the least WRID whose completion covers it
	n    int32
}

// channelOf is the channel of a message's generation with this index.
func (q *QP) channelOf(seq uint64, index int) *channel {
	return q.chans[q.generationOf(seq)*q.cfg.Channels+index]
}

// generationOf and slotOf are the generation and the slot of message seq.
func (q *QP) generationOf(seq uint64) int {
	return int(seq / uint64(q.tableCfg.Slots) % uint64(q.cfg.Generations))
}
func (q *QP) slotOf(seq uint64) int { return int(seq & uint64(q.tableCfg.Slots-1)) }

// A message of fewer packets than shortPackets is short: shortRun of them that follow each other are at home on one channel, so that
// those that are sent together can go to the device, and through the network's interface, as one train.
const (
	shortPackets = 16
	shortRun     = 16
)

// startChannel is the home channel of the first packet of message seq, whose receiver's buffer has length bytes.
func (q *QP) startChannel(seq uint64, length units.Bytes) int {
	if length < shortPackets*q.cfg.MTU {
		seq /= shortRun
	}
	return int(seq % uint64(q.cfg.Channels))
}

// homeChannel is the channel on which packets of a granted message around packet count
// as a first pass.
func (q *QP) homeChannel(m *sendMsg, packet int) int { return q.homeFrom(m.start, packet) }

// homeFrom is that of a message whose first packet is at home on channel start.
func (q *QP) homeFrom(start, packet int) int { return (start + packet/wordPackets) % q.cfg.Channels }

// room is how many packets the channel would take now; mu is held.
func (q *QP) room(ch *channel) int {
	n := q.cfg.SendDepth - int(ch.posted-ch.done)
	if ch.handed.busy { // nothing more goes to the device until its worker has posted that
		n = min(n, postBatch-len(ch.batch))
	}
	return n
}

// A quantum is how many packets of raw messages a QP injects before its worker polls
// again: nothing else holds a raw sender up, and what arrives meanwhile must find
// room. leastQuantum is for peers that say that they take hardly anything.
const (
	maxQuantum   = 64
	leastQuantum = 8
)

// quantum is at most half of what the peer takes back to back; mu is held.
func (q *QP) quantum() int {
	if w := q.peerWindow(); w > 0 {
		return int(min(maxQuantum, max(leastQuantum, w/2/q.cfg.MTU)))
	}
	return maxQuantum
}

// progressSends injects a quantum of what is queued and finishes what is done. It reports
// whether the quantum was used up; mu is held.
func (q *QP) progressSends(now units.Instant) (usedUp bool) {
	if q.state() != qpReady && q.state() != qpConnecting {
		return false
	}
	keep, left := q.sending[:0], q.quantum()
	for _, m := range q.sending {
		if m.seq == 0 || q.state() == qpReady { // 0 is the connection check
			left = q.progressSend(now, m, left)
		}
		// Keep what still has packets to inject; a grant and completions enlist the rest.
		if len(m.queue) > 0 || m.fragments > 0 {
			keep = append(keep, m)
		} else {
			m.enlisted = false
		}
	}
	clear(q.sending[len(keep):])
	q.sending = keep
	return left == 0
}

// progressSend injects at most n packets of m and returns how many of n are left; mu is held.
func (q *QP) progressSend(now units.Instant, m *sendMsg, n int) (left int) {
	if m.state().granted() {
		n = q.injectQueued(now, m, n)
	}
	switch m.state() {
	case sendEnding, sendFailed:
		if len(m.queue) == 0 && m.fragments == 0 && m.inflight == 0 {
			m.finish(now)
		}
	}
	return n
}

// injectQueued injects at most so many queued packets of m while channels have room, and returns
// how many more it might have; fragments first, so that
// the immediate is there when the message is, where packets keep their order; mu is held.
func (q *QP) injectQueued(now units.Instant, m *sendMsg, most int) (left int) {
	for m.fragments > 0 {
		i := 1 + q.cfg.Split.Fragments() - m.fragments
		if !q.zeroLength(now, m, q.homeChannel(m, 0), i) {
			return most
		}
		q.stats.Fragments++
		m.fragments--
	}
	for len(m.queue) > 0 {
		r := &m.queue[0]
		for r.From < r.To {
			end := min(r.To, (r.From/wordPackets+1)*wordPackets, r.From+most)
			n := q.inject(now, m, r.From, units.Bytes(end-r.From)*q.cfg.MTU, q.homeChannel(m, r.From), 0)
			r.From += n
			most -= n
			if n == 0 {
				return most
			}
		}
		m.queue = m.queue[1:]
	}
	return most
}

// inject builds the writes for the packets of m from first on that carry length bytes, as far as m has them, and that have been sent
// so many times before; mu is held. It returns how many the channel took.
func (q *QP) inject(now units.Instant, m *sendMsg, first int, length units.Bytes, channel int, repeats uint32) int {
	ch := q.channelOf(m.seq, channel)
	n := min(q.packets(length), q.packets(m.length)-first, q.room(ch))
	if n <= 0 {
		return 0
	}
	mtu, last := q.cfg.MTU, min(m.length, units.Bytes(first)*q.cfg.MTU+length)
	lkey, slot := m.mr.region.LKey(), q.slotOf(m.seq)
	split := q.cfg.Split
	for i := first; i < first+n; i++ {
		if len(ch.batch) == cap(ch.batch) && !q.flush(now, ch) {
			n = i - first
			break
		}
		off := units.Bytes(i) * mtu
		ch.batch = append(ch.batch, backend.Write{
			VA: m.g.va + uint64(off), RKey: m.g.rkey, LKey: lkey, Offset: m.base + off,
			Length: uint32(min(mtu, last-off)), Imm: split.Imm(slot, i, split.Fragment(m.imm, i)|repeats),
		})
		q.queueFlush(ch)
	}
	q.record(m, ch, n)
	return n
}

// zeroLength injects a packet without payload at a reserved or fragment offset; mu is held.
func (q *QP) zeroLength(now units.Instant, m *sendMsg, channel, offset int) bool {
	ch := q.channelOf(m.seq, channel)
	if q.room(ch) <= 0 || len(ch.batch) == cap(ch.batch) && !q.flush(now, ch) {
		return false
	}
	ch.batch = append(ch.batch, backend.Write{
		VA: m.g.va, RKey: m.g.rkey,
		Imm: q.cfg.Split.Imm(q.slotOf(m.seq), offset, q.cfg.Split.Fragment(m.imm, offset)),
	})
	q.queueFlush(ch)
	q.record(m, ch, 1)
	return true
}

// record notes that n packets of m were put into the channel's batch; mu is held.
func (q *QP) record(m *sendMsg, ch *channel, n int) {
	if n == 0 {
		return
	}
	ch.posted += uint64(n)
	m.inflight += n
	q.stats.PacketsPosted += uint64(n)
	ch.injections.Push(injection{m: m, upTo: ch.posted, n: int32(n)})
}

// queueFlush remembers that ch has something to flush; mu is held.
func (q *QP) queueFlush(ch *channel) {
	if !ch.flushQueued {
		ch.flushQueued = true
		q.pendFlush = append(q.pendFlush, ch)
	}
}

// flushAll posts what is gathered on all channels; false when some is left that nobody else is about to post. mu is held.
func (q *QP) flushAll(now units.Instant) bool {
	kept, waiting := q.pendFlush[:0], 0
	for _, ch := range q.pendFlush {
		if q.flush(now, ch) {
			ch.flushQueued = false
			continue
		}
		kept = append(kept, ch)
		if ch.handed.busy {
			waiting++ // its worker kicks us
		}
	}
	q.pendFlush = kept
	return len(kept) == waiting
}

// mostTogether is how many packets a control datagram goes along with at most.
const mostTogether = 8

// flushTogether posts small messages, those of the last channel and the control datagram that is due as one, if the device can; mu is held.
func (q *QP) flushTogether(now units.Instant, w *worker) {
	last := len(q.pendFlush) - 1
	if last < 0 || q.sess == nil {
		return
	}
	ch := q.pendFlush[last]
	if ch.carrier == nil || ch.handed.busy || len(ch.batch) == 0 || len(ch.batch) > mostTogether || q.home.credits.Load() <= 0 {
		return
	}
	q.sess.SetActivity(now, q.activity())
	b, _ := q.sess.Poll(now, w.dgram)
	if len(b) == 0 {
		return
	}
	q.pendFlush = q.pendFlush[:last]
	q.flushAll(now) // they come before
	q.pendFlush = append(q.pendFlush, ch)
	q.signalLast(ch)
	q.ep.ctrlMu.Lock()
	n, carried, err := ch.carrier.PostWritesWith(now, ch.batch, q.ep.ctrl, backend.Datagram{To: q.ah, Data: b})
	q.ep.ctrlMu.Unlock()
	q.wasPosted(ch, n, err)
	if !carried {
		q.postControl(now, w, b)
	}
}

// flush posts the channel's batch, its last write signalled, or has its worker post it. It reports whether
// the batch is empty; mu is held.
func (q *QP) flush(now units.Instant, ch *channel) bool {
	if cap(ch.batch) == 0 {
		ch.batch = make([]backend.Write, 0, postBatch)
		return true
	}
	if len(ch.batch) == 0 || q.handOver(ch) {
		return true
	}
	if ch.handed.busy || q.home.credits.Load() <= 0 {
		return false
	}
	q.signalLast(ch)
	n, err := ch.dev.PostWrites(now, ch.batch)
	return q.wasPosted(ch, n, err)
}

// signalLast asks for a completion of the channel's batch, if the device reads memory after it has taken it;
// mu is held.
func (q *QP) signalLast(ch *channel) {
	if q.caps.Inline {
		return
	}
	last := &ch.batch[len(ch.batch)-1]
	last.Signaled = true
	last.WRID = ch.flushed + uint64(len(ch.batch))
}

// wasPosted takes the first n writes of the channel's batch, which the device has taken, out of it, and reports whether it is
// empty; mu is held.
func (q *QP) wasPosted(ch *channel, n int, err error) bool {
	if err != nil {
		q.fail(&OpError{Op: "post writes", Object: q.name, Err: err})
		ch.batch = ch.batch[:0]
		return true
	}
	switch {
	case q.caps.Inline:
	case n == len(ch.batch):
		q.home.credits.Add(-1)
		ch.signals++
	default:
		ch.batch[len(ch.batch)-1].Signaled = false // it may not be the last next time
	}
	ch.flushed += uint64(n)
	ch.batch = ch.batch[:copy(ch.batch, ch.batch[n:])]
	if q.caps.Inline && (q.wasSent(ch, ch.flushed) || n == postBatch) {
		q.makeReady() // a message may have ended, or there is more where this came from
	}
	return len(ch.batch) == 0
}

// onSent handles a send completion: everything up to WRID is done.
func (q *QP) onSent(ch *channel, c *backend.Completion) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if ch.signals > 0 { // otherwise closing has given the credit back
		ch.signals--
		q.home.credits.Add(1)
	}
	if c.Status == backend.StatusError && q.state() < qpClosing {
		q.fail(&OpError{Op: "send", Object: q.name, Err: ErrClosed, Detail: "the device reports a failed send", Fix: "is its port still up?"})
		return
	}
	q.wasSent(ch, c.WRID)
	q.makeReady()
}

// wasSent notes that the channel's first n packets don't read memory any more, and reports whether a message may have ended
// with them; mu is held.
func (q *QP) wasSent(ch *channel, n uint64) (ended bool) {
	ch.done = max(ch.done, n)
	for r := &ch.injections; r.Len() > 0 && r.Front().upTo <= n; {
		x := r.Pop()
		m := x.m
		m.inflight -= int(x.n)
		if m.inflight == 0 && m.state() == sendEnding {
			q.enlist(m)
			ended = true
		}
	}
	return ended
}

// queuePacket queues one packet again: the connection check repeats itself so. QP.mu is held.
func (m *sendMsg) queuePacket(i int) {
	m.queue = append(m.queue, bitmap.Range{From: i, To: i + 1})
	m.q.enlist(m)
}
