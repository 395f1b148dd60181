// SPDX-License-Identifier: Apache-2.0

package sdr

import "github.com/sdr-rdma/go-sdr/sdr/internal/wire"

// Held is how much a QP remembers that its peer has a say in.
type Held struct {
	Grants, Beyond, Sends, Recvs, Events, Arena int
	// Told counts STARTs, ENDs and ABORTs that the peer has not acknowledged.
	CTS, Completed, Told int
}

// Held looks at q.
func (q *QP) Held() Held {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Held{
		Grants: len(q.grants), Beyond: len(q.beyond), Sends: len(q.sends), Recvs: len(q.recvs),
		Events: len(q.events), Arena: len(q.arena),
		CTS: q.sess.UnackedOf(wire.TypeCTS), Completed: q.sess.UnackedOf(wire.TypeCompleted),
		Told: q.sess.UnackedOf(wire.TypeStart) + q.sess.UnackedOf(wire.TypeEnd) + q.sess.UnackedOf(wire.TypeAbort),
	}
}

// Limits of what waits for a driver.
const (
	MaxEvents = maxEvents
	MaxArena  = maxArena
)

// Frontier is the next sequence to post, and the first not granted.
func (q *QP) Frontier() (nextRecv, granted uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.nextRecv, q.granted
}

// Hear gives q a datagram of control frames as if its peer had sent it.
func (q *QP) Hear(number uint32, frames []byte) {
	b := wire.AppendHeader(nil, wire.Header{ConnID: q.id, Number: number})
	q.ctx.onDatagram(q.ctx.Now(), append(b, frames...))
}

// PublishPackets does the first half of what a worker does with packets of a message: their chunks are
// not counted yet.
func (h RecvHandle) PublishPackets(word int, bits uint64) {
	h.m.msg.Tracker.Packets().First.Publish(word, bits)
}

// Outcome is how the message was completed.
func (h RecvHandle) Outcome() Outcome { return h.m.outcome }
