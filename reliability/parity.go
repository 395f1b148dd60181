// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A paritySpace is the memory for parity of one half of a Conn: slots of one parity
// message each, Config.ParityPool bytes at most, registered a piece at a time as they are
// needed. Parity bytes are written once: a slot is used again only after the fence of the
// message that it carried, or once nothing reads it.
type paritySpace struct {
	*link
	pieces []parityPiece
	free   []*paritySlot
	all    int // slots
}

type parityPiece struct {
	mr  *sdr.MR
	buf []byte // nil without content
}

// A paritySlot is the memory of one parity message.
type paritySlot struct {
	off units.Bytes
	mr  *sdr.MR
}

// parityPieceBytes is by how much the memory grows, or a slot if that is more.
const parityPieceBytes = 64 * units.MiB

// acquire returns a free slot, nil if there is none. like shows whether memory has content.
func (p *paritySpace) acquire(like *sdr.MR, access sdr.Access) (*paritySlot, error) {
	if len(p.free) == 0 {
		if err := p.grow(like, access); err != nil {
			return nil, err
		}
	}
	n := len(p.free)
	if n == 0 {
		return nil, nil
	}
	s := p.free[n-1]
	p.free = p.free[:n-1]
	return s, nil
}

// release returns a slot.
func (p *paritySpace) release(s *paritySlot) { p.free = append(p.free, s) }

func (p *paritySpace) grow(like *sdr.MR, access sdr.Access) (err error) {
	each := p.parityBytes()
	n := min(int(p.cfg.ParityPool/each)-p.all, max(1, int(parityPieceBytes/each)))
	if n <= 0 {
		return nil
	}
	total := units.Bytes(n) * each
	ep := p.qp.Endpoint()
	var piece parityPiece
	if like.Bytes() == nil {
		piece.mr, err = ep.RegisterSize(total, access)
	} else if piece.buf, err = sdr.AllocBuffer(total); err == nil {
		if piece.mr, err = ep.RegisterMemory(piece.buf, access); err != nil {
			_ = sdr.FreeBuffer(piece.buf)
		}
	}
	if err != nil {
		return err
	}
	p.pieces, p.all = append(p.pieces, piece), p.all+n
	for i := n - 1; i >= 0; i-- {
		p.free = append(p.free, &paritySlot{off: units.Bytes(i) * each, mr: piece.mr})
	}
	return nil
}

// close returns the memory to the system; the QP is closed.
func (p *paritySpace) close() {
	for _, piece := range p.pieces {
		if err := piece.mr.Close(); err != nil {
			p.log.Warn("parity memory stays mapped", "err", err)
			continue
		}
		_ = sdr.FreeBuffer(piece.buf)
	}
	p.pieces, p.free, p.all = nil, nil, 0
}
