// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A passenger is a datagram that goes along with writes to the same UDP port: as the last packet of their train where it is
// no longer than they are, else in the same system call. To the peer it is a datagram like any other.
type passenger struct {
	to   *peer
	psn  roce.PSN
	from *queuePair
	data []byte
}

// mostCarriers is how many writes a datagram goes along with at most: those of a small message. For more, a system call
// doesn't matter, and the datagram should not wait for all of them.
const mostCarriers = 8

// PostWritesWith sends writes and, behind them, a datagram to the same host.
func (q *queuePair) PostWritesWith(now units.Instant, w []backend.Write, ud backend.QP, g backend.Datagram) (int, bool, error) {
	along, ok := q.passenger(now, len(w), ud, g)
	if !ok {
		n, err := q.PostWrites(now, w)
		return n, false, err
	}
	head, reserved := q.reserve(w)
	q.sender.mu.Lock()
	defer q.sender.mu.Unlock()
	posted, carried, err := 0, false, error(nil)
	if len(head) == len(w) {
		posted, carried, err = q.sendWith(now, w, &along)
	}
	q.complete(w[:posted], reserved)
	return posted, carried, err
}

// passenger makes a passenger of g, if that may go along with n writes of q.
func (q *queuePair) passenger(now units.Instant, n int, ud backend.QP, g backend.Datagram) (along passenger, ok bool) {
	d, p := q.d, q.peer.Load()
	u, _ := ud.(*queuePair)
	to := d.handle(g.To)
	if u == nil || u.d != d || u.typ != backend.UD || p == nil || to == nil || d.cfg.Wire != nil || n == 0 || n > mostCarriers || len(g.Data) > int(u.mtu) {
		return along, false
	}
	if to.addr != p.addr || to.port != p.port || !p.trains(d, now) || q.sender.number >= len(to.flows) {
		return along, false // to another place, alone, or from a socket that is newer than the handle
	}
	u.sender.mu.Lock()
	defer u.sender.mu.Unlock()
	along = passenger{to: to, psn: u.nextPSN, from: u, data: g.Data}
	u.nextPSN = u.nextPSN.Add(1)
	return along, !u.closed
}

// sendWith sends w and a passenger. Where the kernel doesn't take all at once, what is left is for the caller to
// post again. sender.mu is held.
func (q *queuePair) sendWith(now units.Instant, w []backend.Write, along *passenger) (posted int, carried bool, err error) {
	s := q.sender
	s.needBatch()
	if q.closed || s.closed {
		return 0, false, backend.ErrClosed
	}
	if s.stage == nil {
		s.stage = &stage{}
	}
	p := q.peer.Load()
	taken, err := s.gather(q, p, w, true, along)
	f := s.flush()
	if f.outcome == sentRefused && f.packets == 0 {
		refusal := f.refusal
		taken, err = s.gather(q, p, w, false, along)
		f = s.flush()
		s.judgeRefusal(now, refusal, f.first)
	}
	if f.outcome == sentFull {
		q.sendCQ.retryLater(now)
	}
	posted = min(f.packets, taken)
	q.nextPSN = q.nextPSN.Add(posted)
	return posted, f.packets > taken, err
}

// seat puts a passenger behind the packets of the train, or into a message of its own. mu is held.
func (s *sender) seat(x *passenger, t *trainBuilder, limit int) {
	buf := s.stage.packets[0][:]
	h := x.from.datagramHeader(x.to, x.psn, len(x.data))
	h.Encode(buf)
	n := roce.UDSendHeaders + copy(buf[roce.UDSendHeaders:], x.data)
	n += roce.PutTrailer(buf[n:], len(x.data), 0)
	x.to.flows[s.number].Seed(n).Seal(buf[:n])
	b, tos := s.batch, x.to.tosOf(n, false)
	if t.packets == 0 || !t.fits(n, tos, limit) {
		t.close()
		b.addPacket(x.to, tos, buf[:n], len(x.data))
		return
	}
	b.addIov(addressOf(buf), n)
	t.packets++
	t.bytes += n
	b.info[b.nmsgs].packets++
	b.info[b.nmsgs].bytes += uint32(len(x.data))
}
