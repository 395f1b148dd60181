// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/roce"
)

// rocePort is a device's port on a real network: RoCEv2 over the UDP sockets of an IPv4 address. It speaks UC and UD.
type rocePort struct {
	here    netip.AddrPort
	receive int            // the socket of the well-known port
	senders map[uint16]int // sockets by source port
	buf     []byte
	late    []latePacket
	// sentInside and takenInside count the packets sent to, and taken from, ports of the same host.
	sentInside, takenInside int
}

// latePacket is one that the network keeps for a while.
type latePacket struct {
	due time.Time
	fd  int
	to  *unix.SockaddrInet4
	b   []byte
}

// Sizes of sockets' buffers, and how many packets are taken at a time.
const (
	roceBuffer = 8 << 20
	roceBurst  = 256
)

func newRocePort(addr netip.Addr) (*rocePort, error) {
	n := &rocePort{here: netip.AddrPortFrom(addr, roce.UDPPort), senders: map[uint16]int{}, buf: make([]byte, 1<<16)}
	var err error
	n.receive, err = n.socket(roce.UDPPort)
	return n, err
}

// socket makes a UDP socket whose packets are not fragmented, so that their IPv4 identification is 0 as the ICRC has it.
func (n *rocePort) socket(port uint16) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUFFORCE} {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, roceBuffer) // the latter two need a privilege
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: n.here.Addr().As4(), Port: int(port)}))
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("UDP port %d of %v: %w", port, n.here.Addr(), err)
	}
	return fd, nil
}

func (n *rocePort) close() {
	unix.Close(n.receive)
	for _, fd := range n.senders {
		unix.Close(fd)
	}
}

// sender is a socket with that source port, or with another one where that is taken.
func (n *rocePort) sender(port uint16) (int, uint16, error) {
	fd, ok := n.senders[port]
	if !ok {
		var err error
		if fd, err = n.socket(port); errors.Is(err, unix.EADDRINUSE) {
			fd, err = n.socket(0)
		}
		if err != nil {
			return -1, 0, err
		}
		n.senders[port] = fd
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return -1, 0, err
	}
	return fd, uint16(sa.(*unix.SockaddrInet4).Port), nil
}

// sourcePort is what the driver makes of a flow label (rdma_flow_label_to_udp_sport); without one the device chooses.
func (q *queuePair) sourcePort() uint16 {
	if q.sport != 0 {
		return q.sport
	}
	return labelPort(le.Uint32(q.attrs[16:]), q.number)
}

func labelPort(label, qpn uint32) uint16 {
	const first, low, high = 0xc000, 0x03fff, 0xfc000
	if label == 0 {
		return uint16(first | qpn&low)
	}
	return uint16(first | label&low ^ label&high>>14)
}

// transmit sends a message of q in packets of its path MTU. What the network doesn't take is lost.
func (d *Device) transmit(q *queuePair, dest uint32, m *message) verdict {
	n := d.port
	port := q.sourcePort()
	if q.kind == qptUD {
		port = m.sourcePort
	}
	fd, port, err := n.sender(port)
	if err != nil {
		d.violation("source port %d: %v", port, err)
		return unreachable
	}
	to := netip.AddrFrom16(m.dst).Unmap()
	flow, err := roce.NewFlow(netip.AddrPortFrom(n.here.Addr(), port), netip.AddrPortFrom(to, roce.UDPPort))
	if err != nil || !to.Is4() {
		return unreachable
	}
	peer := &unix.SockaddrInet4{Addr: to.As4(), Port: roce.UDPPort}
	for _, p := range packets(q, dest, m) {
		p.PSN, p.PKey, p.MigReq = q.nextPSN, roce.DefaultPKey, true
		q.nextPSN = q.nextPSN.Next()
		size, err := p.Encode(n.buf)
		if err != nil {
			d.violation("QP %#x: packet: %v", q.number, err)
			return unreachable
		}
		flow.Seed(size).Seal(n.buf[:size])
		d.put(fd, n.buf[:size], peer)
		d.stats.PacketsSent++
	}
	return good
}

// put puts a packet on the network.
func (d *Device) put(fd int, b []byte, to *unix.SockaddrInet4) {
	n := d.port
	copies := 1
	switch d.host.fate() {
	case Lost:
		return
	case Doubled:
		copies = 2
	case Late:
		n.late = append(n.late, latePacket{time.Now().Add(lateness), fd, to, bytes.Clone(b)})
		return
	}
	for range copies {
		d.sendTo(fd, b, to)
	}
}

// sendTo gives the network a packet.
func (d *Device) sendTo(fd int, b []byte, to *unix.SockaddrInet4) {
	switch {
	case unix.Sendto(fd, b, unix.MSG_DONTWAIT, to) != nil:
		d.stats.Dropped++
	case d.host.inside(netip.AddrFrom4(to.Addr)):
		d.port.sentInside++
	}
}

// putLate sends the late packets that are due.
func (d *Device) putLate(now time.Time) {
	n := d.port
	for len(n.late) > 0 && !now.Before(n.late[0].due) {
		p := &n.late[0]
		d.sendTo(p.fd, p.b, p.to)
		n.late = n.late[1:]
	}
}

// Places of a packet in its message: the lower five bits of opcodes, of SEND; those of RDMA WRITE are wireWrite more.
const (
	wireFirst   = 0
	wireMiddle  = 1
	wireLast    = 2
	wireOnly    = 4
	wireImm     = 1 // more than wireLast and wireOnly
	wireWrite   = 6
	wireService = 0x1f
)

// packets are those of a message.
func packets(q *queuePair, dest uint32, m *message) []roce.Packet {
	if q.kind == qptUD {
		p := roce.Packet{Opcode: roce.UDSendOnly, DestQP: roce.QPN(dest), SrcQP: roce.QPN(q.number), QKey: roce.QKey(m.qkey), Payload: m.data, Solicited: m.solicited}
		if m.opcode == opSendImm {
			p.Opcode, p.Imm = roce.UDSendOnlyImm, m.imm
		}
		return []roce.Packet{p}
	}
	base := roce.UCSendFirst
	if m.opcode == opWrite || m.opcode == opWriteImm {
		base += wireWrite
	}
	mtu, data := q.pathMTU(), m.data
	var all []roce.Packet
	for first := true; first || len(data) > 0; first = false {
		p := roce.Packet{DestQP: roce.QPN(dest), Payload: data[:min(len(data), mtu)]}
		data = data[len(p.Payload):]
		last := len(data) == 0
		switch {
		case first && last:
			p.Opcode = base + wireOnly
		case first:
			p.Opcode = base + wireFirst
		case last:
			p.Opcode = base + wireLast
		default:
			p.Opcode = base + wireMiddle
		}
		if first {
			p.VA, p.RKey, p.DMALength = m.addr, m.key, uint32(len(m.data))
		}
		if last {
			p.Solicited = m.solicited
			if m.opcode == opWriteImm || m.opcode == opSendImm {
				p.Opcode, p.Imm = p.Opcode+wireImm, m.imm
			}
		}
		all = append(all, p)
	}
	return all
}

// listen takes packets from the network. It reports whether there were any.
func (d *Device) listen() bool {
	n := d.port
	if len(n.late) > 0 {
		d.putLate(time.Now())
	}
	for i := range roceBurst {
		size, from, err := unix.Recvfrom(n.receive, n.buf, 0)
		if err != nil {
			return i > 0
		}
		d.stats.PacketsReceived++
		if sa, ok := from.(*unix.SockaddrInet4); ok && d.host.inside(netip.AddrFrom4(sa.Addr)) {
			n.takenInside++
		}
		if v := d.arrive(n.buf[:size], from); v != good {
			d.stats.Dropped++
		}
	}
	return true
}

// arrive checks a packet and gives it to its QP.
func (d *Device) arrive(b []byte, from unix.Sockaddr) verdict {
	sa, ok := from.(*unix.SockaddrInet4)
	var p roce.Packet
	if !ok || p.Parse(b) != nil {
		return unreachable
	}
	src := netip.AddrFrom4(sa.Addr)
	flow, err := roce.NewFlow(netip.AddrPortFrom(src, uint16(sa.Port)), d.port.here)
	if err != nil {
		return unreachable
	}
	if wrong := flow.Seed(len(b)).Sum(b[:len(b)-roce.ICRCSize]) ^ p.ICRC; wrong != 0 {
		// Other devices number their packets, which a socket doesn't show.
		if _, ok := roce.SolveIPv4ID(len(b), wrong); !ok {
			d.stats.BadICRC++
			return unreachable
		}
	}
	q := d.qps[uint32(p.DestQP)]
	switch {
	case q == nil || q.state != stateRTR && q.state != stateRTS:
		return unreachable
	case q.kind == qptUD && p.Opcode.IsUD():
		m := message{opcode: opSend, data: p.Payload, imm: p.Imm, solicited: p.Solicited, qkey: uint32(p.QKey), srcQP: uint32(p.SrcQP), src: src.As16(), dst: d.gid}
		if p.Opcode == roce.UDSendOnlyImm {
			m.opcode = opSendImm
		}
		return d.deliver(q, &m)
	case q.kind == qptUC && p.Opcode.IsUC() && netip.AddrFrom16(q.destGID()).Unmap() == src:
		return d.assemble(q, &p)
	}
	return unreachable
}

// inbound is the message that is arriving at a UC QP.
type inbound struct {
	write  bool
	active bool
	addr   uint64
	key    uint32
	length uint32 // of a write, as its first packet said
	before uint32 // bytes that have come
	data   []byte // of a send
}

// assemble takes a packet of a UC QP. Writes are placed packet by packet. A message that misses a packet is dropped from
// there on (IBTA 9.8.2).
func (d *Device) assemble(q *queuePair, p *roce.Packet) verdict {
	inOrder := p.PSN == q.expectedPSN
	q.expectedPSN = p.PSN.Next()
	place := p.Opcode & wireService
	in := &q.inbound
	write := place >= wireWrite
	if write {
		place -= wireWrite
	}
	imm := place == wireLast+wireImm || place == wireOnly+wireImm
	first, last := place == wireFirst || place >= wireOnly, place >= wireLast
	if first {
		*in = inbound{write: write, active: true, addr: p.VA, key: p.RKey, length: p.DMALength, data: in.data[:0]}
	} else if !inOrder || write != in.write {
		in.active = false
	}
	size := uint32(len(p.Payload))
	if !last && int(size) != q.pathMTU() || int(size) > q.pathMTU() || write && in.before+size > in.length || in.before+size > maxMessage {
		in.active = false
	}
	if !in.active {
		return unreachable
	}
	in.active = !last
	m := message{opcode: opSend, imm: p.Imm, solicited: p.Solicited, srcQP: q.destQPN()}
	if write {
		m.opcode, m.addr, m.key, m.data, m.before = opWrite, in.addr+uint64(in.before), in.key, p.Payload, in.before
	} else {
		in.data = append(in.data, p.Payload...)
		m.data = in.data
	}
	in.before += size
	if imm {
		m.opcode = map[bool]byte{false: opSendImm, true: opWriteImm}[write]
	}
	if !write && !last {
		return good
	}
	v := d.deliver(q, &m)
	if v != good {
		in.active = false
	}
	return v
}
