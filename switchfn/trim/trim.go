// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/units"
)

// Admit decides about a packet for whose port queued bytes of data wait already. Header-only packets always go
// to the control queue. Below the threshold all else goes to the data queue; from it on data are trimmed, if
// they can be, and anything else is dropped.
func Admit(t Tag, canCut bool, queued, threshold units.Bytes) switchfn.Verdict {
	switch {
	case t == HeaderOnly:
		return switchfn.Control
	case queued < threshold:
		return switchfn.Pass
	case t == Data && canCut:
		return switchfn.Trim
	}
	return switchfn.Drop
}

// Frame is Admit on an Ethernet frame, of which keep bytes stay if it is trimmed (0: as many as its opcode
// needs). It returns what to send, a part of b. What is no RoCEv2 packet counts as Other.
func Frame(b []byte, keep int, queued, threshold units.Bytes) ([]byte, switchfn.Verdict) {
	l, ok := Parse(b)
	n := 0
	if ok {
		n = l.Length(keep)
	}
	v := Admit(l.tagIf(ok), n > 0, queued, threshold)
	if v == switchfn.Trim {
		b = l.Cut(b, n)
	}
	return b, v
}

func (l *Layout) tagIf(ok bool) Tag {
	if !ok {
		return Other
	}
	return l.Tag
}

// Weight is the share of the control queue over that of the data queue, in bytes, with which it loses nothing
// when all but one of radix ports send to that one and everything is trimmed: w = (N−1)/(r−N+1), where r is
// the size of a data packet over that of its header (section 4.2). There is none unless r > N−1.
func Weight(radix int, r float64) (float64, error) {
	n := float64(radix - 1)
	if radix < 2 || !(r > n) {
		return 0, operr.New("weigh", "trim", "radix %d, data %.4g times as large as headers: no weight makes the control queue lossless unless r > N-1 and N > 1", radix, r)
	}
	return n / (r - n), nil
}

// Overhead is what a link layer adds to an Ethernet frame (without its FCS) on the wire.
type Overhead uint8

// The link layers.
const (
	// NS3 counts what the simulators of this field count: the frame itself.
	NS3 Overhead = iota
	// Ethernet adds FCS, preamble and gap, and fills up to the least frame (IEEE 802.3).
	Ethernet
)

// Size is what a frame of n bytes takes.
func (o Overhead) Size(n units.Bytes) units.Bytes {
	if o == NS3 {
		return n
	}
	const least, fcs, preamble, gap = 60, 4, 8, 12
	return max(n, least) + fcs + preamble + gap
}

// Ratio is r: how much larger a data packet is than its header.
func (o Overhead) Ratio(data, header units.Bytes) float64 {
	return float64(o.Size(data)) / float64(o.Size(header))
}
