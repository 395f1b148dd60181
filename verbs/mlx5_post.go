// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
)

// mlx5Opcodes are those of requests, by SendOpcode.
var mlx5Opcodes = [...]uint8{
	OpRDMAWrite: mlx5.OpWrite, OpRDMAWriteWithImm: mlx5.OpWriteImm, OpSend: mlx5.OpSend, OpSendWithImm: mlx5.OpSendImm, OpRDMARead: mlx5.OpRead,
	OpCompareSwap: mlx5.OpCompareSwap, OpFetchAdd: mlx5.OpFetchAdd, OpLocalInv: mlx5.OpUMR, OpBindMW: mlx5.OpUMR, OpSendWithInv: mlx5.OpSendInval,
}

// mlx5AtomicSize is what an atomic operation brings.
const mlx5AtomicSize = 8

// postSend fills requests in and rings the doorbell once.
func (m *mlx5QP) postSend(wrs []SendWR) (n int, err error) {
	for n = range wrs {
		wr := &wrs[n]
		bad := m.q.checkSend(wr)
		if bad == "" && (wr.Opcode == OpBindMW || wr.Opcode == OpLocalInv) {
			bad = m.checkWindow(wr)
		}
		if bad == "" && int(wr.Opcode) >= len(mlx5Opcodes) {
			bad = "mlx5 has no such request"
		}
		if bad == "" && wr.Flags&SendInline == 0 && tooLong(&wr.Local, wr.SG) {
			bad = tooLongPiece
		}
		if bad != "" {
			err = &PostError{Index: n, Err: bad}
			break
		}
		if !m.sq.HasRoom(m.segments(wr)) {
			err = ErrQueueFull
			break
		}
		m.fillSend(wr)
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 {
		m.sq.Ring()
	}
	return n, err
}

// segments is the size of a request that checkSend has passed.
func (m *mlx5QP) segments(wr *SendWR) int {
	n := 1
	switch {
	case wr.Opcode == OpLocalInv:
		return mlx5.UnbindSegments
	case wr.Opcode == OpBindMW:
		if wr.Bind.Length == 0 {
			return mlx5.UnbindSegments
		}
		return mlx5.BindSegments
	case m.q.typ == UD:
		n += 3
	case wr.Opcode == OpCompareSwap || wr.Opcode == OpFetchAdd:
		n += 2
	case wr.Opcode != OpSend && wr.Opcode != OpSendWithImm && wr.Opcode != OpSendWithInv:
		n++
	}
	switch {
	case wr.Flags&SendInline != 0:
		if len(wr.Inline) > 0 {
			n += mlx5.InlineSegments(len(wr.Inline))
		}
	case wr.SG == nil:
		if wr.Local.Length > 0 {
			n++
		}
	default:
		for i := range wr.SG {
			if wr.SG[i].Length > 0 {
				n++
			}
		}
	}
	return n
}

func (m *mlx5QP) fillSend(wr *SendWR) {
	r := m.sq.Begin()
	var flags uint8
	if m.signalAll || wr.Flags&SendSignaled != 0 {
		flags |= mlx5.Signaled
	}
	if wr.Flags&SendSolicited != 0 {
		flags |= mlx5.Solicited
	}
	if wr.Flags&SendFence != 0 {
		flags |= mlx5.Fence
	}
	switch wr.Opcode {
	case OpBindMW:
		m.bind(&r, wr.Bind)
		r.End(wr.WRID, mlx5.OpUMR, flags, wr.Bind.post())
		return
	case OpLocalInv:
		r.Invalidate()
		r.End(wr.WRID, mlx5.OpUMR, flags, wr.Imm)
		return
	case OpRDMAWrite, OpRDMAWriteWithImm, OpRDMARead:
		r.RDMA(wr.RemoteAddr, wr.RKey)
	case OpCompareSwap:
		r.RDMA(wr.RemoteAddr, wr.RKey)
		r.CompareSwap(wr.Swap, wr.CompareAdd)
	case OpFetchAdd:
		r.RDMA(wr.RemoteAddr, wr.RKey)
		r.FetchAdd(wr.CompareAdd)
	default:
		if m.q.typ == UD {
			r.Datagram(&wr.UD.AH.part.(*mlx5AH).vector, wr.UD.QPN, wr.UD.QKey)
		}
	}
	atomic := wr.Opcode == OpCompareSwap || wr.Opcode == OpFetchAdd
	switch {
	case wr.Flags&SendInline != 0:
		if len(wr.Inline) > 0 {
			r.Inline(wr.Inline)
		}
	case wr.SG == nil:
		addPiece(&r, &wr.Local, atomic)
	default:
		for i := range wr.SG {
			addPiece(&r, &wr.SG[i], atomic)
		}
	}
	var imm uint32
	if wr.Opcode == OpRDMAWriteWithImm || wr.Opcode == OpSendWithImm || wr.Opcode == OpSendWithInv {
		imm = wr.Imm
	}
	r.End(wr.WRID, mlx5Opcodes[wr.Opcode], flags, imm)
}

const tooLongPiece = "a piece has less than 2 GiB: the device's field has 31 bits, and the next one says that the data is inline"

// tooLong tells whether a piece of memory is longer than the device can be told.
func tooLong(local *SGE, sg []SGE) bool {
	if sg == nil {
		return local.Length >= 1<<31
	}
	for i := range sg {
		if sg[i].Length >= 1<<31 {
			return true
		}
	}
	return false
}

func addPiece(r *mlx5.Request, s *SGE, atomic bool) {
	if s.Length == 0 {
		return
	}
	n := s.Length
	if atomic {
		n = mlx5AtomicSize
	}
	r.Data(s.Addr, n, s.LKey)
}

// postRecv fills receive requests in; the device takes them from memory.
func (m *mlx5QP) postRecv(wrs []RecvWR) (n int, err error) {
	if m.rq == nil {
		return 0, ErrQueueFull
	}
	for n = range wrs {
		wr := &wrs[n]
		if !wr.fits(m.q.cap.MaxRecvSGE) {
			err = tooManyPieces(n, m.q.cap.MaxRecvSGE)
			break
		}
		if tooLong(&wr.Local, wr.SG) {
			err = &PostError{Index: n, Err: tooLongPiece}
			break
		}
		if m.rq.Room() == 0 {
			err = ErrQueueFull
			break
		}
		s := m.rq.Begin(wr.WRID)
		scatter(&s, wr)
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 {
		m.rq.Publish()
	}
	return n, err
}

func (m *mlx5SRQ) postRecv(wrs []RecvWR) (n int, err error) {
	for n = range wrs {
		wr := &wrs[n]
		if !wr.fits(m.s.attr.MaxSGE) {
			err = tooManyPieces(n, m.s.attr.MaxSGE)
			break
		}
		if tooLong(&wr.Local, wr.SG) {
			err = &PostError{Index: n, Err: tooLongPiece}
			break
		}
		if m.ring.Room() == 0 {
			err = ErrQueueFull
			break
		}
		s := m.ring.Begin(wr.WRID)
		scatter(&s, wr)
	}
	if err == nil {
		n = len(wrs)
	}
	if n > 0 {
		m.ring.Publish()
	}
	return n, err
}

// scatter fills in the memory of a receive request.
func scatter(s *mlx5.Scatter, wr *RecvWR) {
	if wr.SG == nil {
		if wr.Local.Length > 0 {
			s.Data(wr.Local.Addr, wr.Local.Length, wr.Local.LKey)
		}
	} else {
		for i := range wr.SG {
			if wr.SG[i].Length > 0 {
				s.Data(wr.SG[i].Addr, wr.SG[i].Length, wr.SG[i].LKey)
			}
		}
	}
	s.End()
}
