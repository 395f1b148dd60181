// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
)

// trainBuilder turns writes of one queue pair into trains: messages that the kernel cuts into packets of
// equal size, of which the last may be shorter. The payloads stay where they are.
type trainBuilder struct {
	b        *sendBatch
	firstIov int
	segment  int // wire size of the first packet, and so of all but the last
	bytes    int
	packets  int
	tos      int32 // of all
	hasShort bool  // a shorter packet has been added
	local    bool  // trains stay on this host, and the kernel can hold them
	held     bool  // those that are long enough are held
}

// fits reports whether a packet of size wire bytes and a TOS may join the train.
func (t *trainBuilder) fits(size int, tos int32, limit int) bool {
	return !t.hasShort && tos == t.tos && t.packets < limit && size <= t.segment && t.bytes+size <= maxTrainBytes
}

// gather builds a batch from the first writes of w, in trains or packet by packet, and returns how many it took, which is as many
// as have room. On an error those before the faulty write are in the batch. A datagram may go along with the last
// of w; nil means none. s.mu is held.
func (s *sender) gather(q *queuePair, p *peer, w []backend.Write, trains bool, along *passenger) (gathered int, err error) {
	b := s.batch
	b.reset()
	limit := 1
	if trains {
		limit = maxTrain
	}
	state := s.d.hold.now()
	t := trainBuilder{b: b, local: p.local && s.holds && state != holdsNever, held: state == holdsSome}
	for gathered < len(w) && gathered < batchPackets {
		x := &w[gathered]
		payload, err := q.source(x)
		if err != nil {
			t.close()
			return gathered, err
		}
		size := roce.PacketSize(roce.UCWriteImmHeaders, len(payload))
		tos := p.tosOf(size, x.Marked)
		if t.packets != 0 && !t.fits(size, tos, limit) {
			t.close()
		}
		if t.packets == 0 {
			t.open(p, size, tos)
		}
		t.add(q.header(p, x, gathered), p.flow.Seed(size), payload, size)
		gathered++
	}
	if along != nil && gathered == len(w) {
		s.seat(along, &t, limit)
	}
	t.close()
	return gathered, nil
}

// source returns the memory that w reads, or what is wrong with w.
func (q *queuePair) source(w *backend.Write) ([]byte, error) {
	if w.Length == 0 {
		return nil, nil
	}
	if w.Length > q.mtu {
		return nil, operr.New("post writes", "userroce", "write of %d bytes on a queue pair with MTU %d", w.Length, q.mtu)
	}
	r := q.d.region(w.LKey)
	if r == nil {
		return nil, operr.New("post writes", "userroce", "write from unknown local key %#x", w.LKey)
	}
	n := int64(len(r.mem))
	if w.Offset < 0 || int64(w.Offset) > n || int64(w.Length) > n-int64(w.Offset) {
		return nil, operr.New("post writes", "userroce", "write of %d bytes from offset %d of a region with %d", w.Length, int64(w.Offset), n)
	}
	return r.mem[w.Offset : int64(w.Offset)+int64(w.Length)], nil
}

// header returns the headers of the i-th packet from now.
func (q *queuePair) header(p *peer, w *backend.Write, i int) roce.UCWriteImm {
	return roce.UCWriteImm{
		VA: w.VA, RKey: w.RKey, Imm: w.Imm, Length: w.Length,
		DestQP: roce.QPN(p.qpn), PSN: q.nextPSN.Add(i), PKey: roce.DefaultPKey,
	}
}

func (t *trainBuilder) open(p *peer, size int, tos int32) {
	t.firstIov, t.segment, t.bytes, t.packets, t.tos, t.hasShort = t.b.niovs, size, 0, 0, tos, false
	t.b.openMessage(p, tos)
}

// add appends one packet. The iovecs of a train are: headers, payload, trailer and headers, payload, …,
// trailer.
func (t *trainBuilder) add(h roce.UCWriteImm, seed roce.Seed, payload []byte, size int) {
	b := t.b
	x := &b.between[b.nbetween]
	next := &b.between[b.nbetween+1]
	b.nbetween++
	h.Encode(x.headers[:])
	icrc := seed.Sum2(x.headers[:], payload)
	if t.packets == 0 {
		b.addIov(addressOf(x.headers[:]), len(x.headers))
	} else {
		b.iovs[b.niovs-1].len += uint64(len(x.headers)) // they follow the previous trailer
	}
	if len(payload) != 0 {
		b.addIov(addressOf(payload), len(payload))
	}
	pad := roce.PadCount(len(payload))
	start := len(next.trailer) - pad - roce.ICRCSize
	roce.PutTrailer(next.trailer[start:], len(payload), icrc)
	b.addIov(addressOf(next.trailer[start:]), pad+roce.ICRCSize)
	t.packets++
	t.bytes += size
	t.hasShort = size < t.segment
	b.info[b.nmsgs].packets++
	b.info[b.nmsgs].bytes += uint32(len(payload))
}

// close completes the train, if there is one.
func (t *trainBuilder) close() {
	if t.packets == 0 {
		return
	}
	segment := 0
	if t.packets > 1 {
		segment = t.segment
	}
	if t.local && t.bytes >= leastHeld {
		t.b.longMessage(t.held)
	}
	t.b.nbetween++ // the train's last trailer has taken the next place
	t.b.closeMessage(t.firstIov, segment)
	t.packets = 0
}
