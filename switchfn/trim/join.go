// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"bytes"
	"encoding/binary"

	"github.com/sdr-rdma/go-sdr/roce"
)

// Header aggregation on bytes: while a header-only packet waits for its port, others for the same queue pair need not queue behind it.
// It carries their names (roce.PutName), 8 bytes each, up to 63, so that the longer the control queue is, the faster it drains,
// whatever the radix is. It is for UC RDMA WRITE Only with Immediate, cut to what its receiver needs and no more.

// names is how many writes besides its own the header-only packet in a frame names; ok is false if nothing can be added to
// it: it is another packet, of another version, on its way back, whole, or cut to more than its headers.
func (l *Layout) names(b []byte) (n int, ok bool) {
	at := l.UDP + udpSize
	if l.Tag != HeaderOnly || l.Opcode != roce.UCWriteOnlyImm || l.End < at+roce.TrimmedSize {
		return 0, false
	}
	h := roce.BTH(b[at:])
	n = int(h.More())
	long := roce.RETH(b[at+roce.BTHSize:]).DMALength() > 0
	return n, long && h.TVer() == 0 && !h.BECN() && l.End == at+roce.TrimmedSize+n*roce.NameSize
}

// Join has the header-only packet in frame b carry those that the one in frame more names, and returns b, as much longer, if it could:
// most is how many writes b may name then, at most roce.MostTrimmed, and b must have the capacity. Both must be between the same ports,
// with the same headers but for addresses below 4 GiB, immediate, PSN, and what the way has changed.
func Join(b, more []byte, most int) ([]byte, bool) {
	l, ok := Parse(b)
	m, too := Parse(more)
	if !ok || !too || l.V6 != m.V6 {
		return b, false
	}
	has, ok := l.names(b)
	adds, too := m.names(more)
	length := l.End + (adds+1)*roce.NameSize
	if !ok || !too || has+adds+2 > min(most, roce.MostTrimmed) || cap(b) < length || !l.alike(b, more) {
		return b, false
	}
	at := l.UDP + udpSize
	b = b[:length]
	reth := roce.RETH(more[at+roce.BTHSize:])
	roce.PutName(b[at:], has, reth.VA(), roce.ImmDt(more[at+roce.BTHSize+rethSize:]).Value())
	copy(b[l.End+roce.NameSize:], more[at+roce.TrimmedSize:m.End])
	roce.BTH(b[at:]).SetMore(uint8(has + adds + 1))
	return l.resize(b, length), true
}

// alike reports whether two frames of one kind agree in all that the names don't say.
func (l *Layout) alike(b, c []byte) bool {
	from, to := ethSize+12, ethSize+20 // IPv4's addresses
	if l.V6 {
		from, to = ethSize+8, ethSize+40
	}
	at := l.UDP + udpSize
	reth := at + roce.BTHSize
	const flags, pkey, destQP, psn = 1, 2, 5, 8
	return bytes.Equal(b[:ethSize+2], c[:ethSize+2]) && // with the traffic class
		bytes.Equal(b[from:to], c[from:to]) && bytes.Equal(b[l.UDP:l.UDP+4], c[l.UDP:l.UDP+4]) &&
		bytes.Equal(b[at+flags:at+pkey+2], c[at+flags:at+pkey+2]) && bytes.Equal(b[at+destQP:at+psn], c[at+destQP:at+psn]) &&
		binary.BigEndian.Uint32(b[reth:]) == binary.BigEndian.Uint32(c[reth:]) && bytes.Equal(b[reth+8:reth+rethSize], c[reth+8:reth+rethSize])
}
