// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// needStage makes the memory in which packets are assembled.
func (s *sender) needStage() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stage == nil {
		s.stage = &stage{wire: make([]backend.WirePacket, 0, stagePackets)}
	}
}

// PostDatagrams sends datagrams, each in a packet of its own. An error concerns the first that was not
// taken.
func (q *queuePair) PostDatagrams(now units.Instant, g []backend.Datagram) (posted int, err error) {
	if q.typ != backend.UD {
		return 0, errNotUD
	}
	s := q.sender
	s.mu.Lock()
	defer s.mu.Unlock()
	s.needBatch()
	if q.closed || s.closed {
		return 0, backend.ErrClosed
	}
	for posted < len(g) {
		staged, err := s.stageDatagrams(q, g[posted:])
		f := s.flush()
		if s.d.cfg.Wire != nil {
			f = s.lossyStage(f, staged)
		}
		posted += f.packets
		q.nextPSN = q.nextPSN.Add(f.packets)
		switch {
		case f.outcome == sentFull:
			q.sendCQ.retryLater(now)
			return posted, nil
		case err != nil:
			return posted, err
		}
	}
	return posted, nil
}

// stageDatagrams assembles the first of g and makes a message of each; mu is held.
func (s *sender) stageDatagrams(q *queuePair, g []backend.Datagram) (staged int, err error) {
	s.batch.reset()
	s.stage.wire = s.stage.wire[:0]
	for staged < len(g) && staged < stagePackets {
		x := &g[staged]
		if len(x.Data) > int(q.mtu) {
			err = operr.New("post datagrams", "userroce", "datagram of %d bytes on a queue pair with MTU %d", len(x.Data), q.mtu)
			break
		}
		p := s.d.handle(x.To)
		if p == nil {
			err = operr.New("post datagrams", "userroce", "datagram to unknown address handle %d", x.To)
			break
		}
		buf := s.stage.packets[staged][:]
		h := q.datagramHeader(p, q.nextPSN.Add(staged), len(x.Data))
		h.Encode(buf)
		s.assemble(p, buf, roce.UDSendHeaders, x.Data, false)
		staged++
	}
	s.outbound()
	return staged, err
}

// datagramHeader returns the headers of a datagram of n bytes to p.
func (q *queuePair) datagramHeader(p *peer, psn roce.PSN, n int) roce.UDSend {
	return roce.UDSend{
		Length: uint32(n), DestQP: roce.QPN(p.qpn), SrcQP: roce.QPN(q.qpn), PSN: psn,
		QKey: roce.QKey(backend.DatagramQKey), PKey: roce.DefaultPKey,
	}
}

// stageWrites is gather for a device with a Wire; mu is held.
func (s *sender) stageWrites(q *queuePair, p *peer, w []backend.Write) (staged int, err error) {
	s.batch.reset()
	s.stage.wire = s.stage.wire[:0]
	for staged < len(w) && staged < stagePackets {
		var payload []byte
		if payload, err = q.source(&w[staged]); err != nil {
			break
		}
		buf := s.stage.packets[staged][:]
		h := q.header(p, &w[staged], staged)
		h.Encode(buf)
		s.assemble(p, buf, roce.UCWriteImmHeaders, payload, w[staged].Marked)
		staged++
	}
	s.outbound()
	return staged, err
}

// assemble completes the packet in buf, whose headers are there, and makes a message of it; mu is held.
func (s *sender) assemble(p *peer, buf []byte, headers int, payload []byte, marked bool) {
	n := headers + copy(buf[headers:], payload)
	n += roce.PutTrailer(buf[n:], len(payload), 0)
	p.flow.Seed(n).Seal(buf[:n])
	tos := p.tosOf(n, marked)
	s.batch.addPacket(p, tos, buf[:n], len(payload))
	if s.d.cfg.Wire != nil {
		s.stage.wire = append(s.stage.wire, backend.WirePacket{
			Src: netip.AddrPortFrom(s.d.addr, s.port), Dst: p.to(), TOS: uint8(max(tos, 0)), Data: buf[:n:n],
		})
	}
}

// outbound shows the staged packets to Config.Wire, and removes from the batch what it drops; mu is held.
func (s *sender) outbound() {
	if s.d.cfg.Wire == nil || len(s.stage.wire) == 0 {
		return
	}
	s.d.cfg.Wire.Outbound(s.stage.wire)
	b := s.batch
	kept := 0
	for i, x := range s.stage.wire {
		if len(x.Data) == 0 {
			continue
		}
		b.msgs[kept], b.info[kept] = b.msgs[i], b.info[i]
		b.iovs[i].len = uint64(min(len(x.Data), int(b.iovs[i].len)))
		kept++
	}
	b.nmsgs = kept
}

// lossyStage is what became of a batch for its poster when there is a Wire: all of it was taken. Offering a packet
// to the Wire again would count it twice, so what the socket has no room for is lost, as in a network
// interface's queue. mu is held.
func (s *sender) lossyStage(f flushed, staged int) flushed {
	if f.outcome == sentFull {
		s.drops[backend.DropQueueFull].Add(uint64(s.batch.nmsgs - f.packets))
	}
	return flushed{packets: staged}
}
