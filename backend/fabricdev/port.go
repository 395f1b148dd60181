// SPDX-License-Identifier: Apache-2.0

package fabricdev

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/transport"
)

// port is where a device's packets enter the fabric: a stream for each UC queue pair, and one to each
// device for datagrams.
type port struct {
	net    *Network
	node   int
	writes []*stream // by number of the queue pair
	frames []*stream // by number of the device
}

// roceUDPPort is the destination port of RoCEv2; sources are of the dynamic range.
const (
	roceUDPPort  = 4791
	firstSrcPort = 0xc000
)

// Post implements virtual.Outlet.
func (p *port) Post(s virtual.Send) {
	k := p.net.world.Packet(s.Packet)
	if k.Kind == backend.KindCongestion || k.Kind == backend.KindTrimmed {
		p.answer(&s, k)
		return
	}
	streams, at := &p.frames, int(k.To)
	st := fabric.Stream{Src: p.node, Dst: p.net.ports[k.To].node, SrcPort: firstSrcPort, DstPort: roceUDPPort}
	if k.Kind == backend.KindWrite {
		streams, at = &p.writes, s.QP.Number()
		st.SrcPort |= uint16(s.QP.Number()*31+s.QP.Channel()) & (firstSrcPort - 1)
		st.Class = p.net.class
	}
	for at >= len(*streams) {
		*streams = append(*streams, nil)
	}
	to := (*streams)[at]
	if to == nil {
		to = p.net.open(st, s.QP)
		(*streams)[at] = to
	}
	to.queue.Push(s)
	p.net.fabric.Wake(to.number)
}

// answer sends a congestion notification for the writes of the peer of s.QP, or gives one that was trimmed back.
func (p *port) answer(s *virtual.Send, k *virtual.Packet) {
	writes, at := p.net.ports[k.To].writes, virtual.NumberOf(k.Dst)
	if at >= len(writes) || writes[at] == nil {
		p.net.world.Release(s.Packet) // the write was not of that queue pair
		return
	}
	to, trimmed := writes[at].number, k.Kind == backend.KindTrimmed
	switch {
	case !s.Leave():
	case trimmed:
		x := p.net.send(s.Packet, transport.Returned)
		p.net.fabric.Return(to, &x)
	default:
		x := p.net.send(s.Packet, transport.CNP)
		p.net.fabric.Notify(to, &x)
	}
}

// Room implements virtual.Outlet: only the fabric knows, so stream.Transmit calls MadeRoom.
func (p *port) Room() netsim.Time { return netsim.Never }

// Abandon implements virtual.Outlet.
func (p *port) Abandon(q *virtual.QP) {
	drop := func(s *virtual.Send) bool {
		if s.QP != q {
			return false
		}
		p.net.world.Release(s.Packet)
		return true
	}
	for _, streams := range [][]*stream{p.writes, p.frames} {
		for _, st := range streams {
			if st != nil {
				st.queue.DeleteFunc(drop)
			}
		}
	}
}

// open adds a stream to the fabric.
func (n *Network) open(s fabric.Stream, q *virtual.QP) *stream {
	st := &stream{net: n}
	if s.Class != 0 {
		st.flags, st.qp, st.entropy = transport.ECT, q, uint16(q.Channel())
	}
	var err error
	if st.number, err = n.fabric.AddStream(s, st, arrivals{n}); err != nil {
		// Both sides are hosts, and different ones.
		panic(fmt.Sprintf("fabricdev: %v", err))
	}
	for st.number >= len(n.streams) {
		n.streams = append(n.streams, nil)
	}
	n.streams[st.number] = st
	return st
}
