// SPDX-License-Identifier: Apache-2.0

package dpa

import (
	"math/bits"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

// A cqRing is a completion queue in memory that is shared with a device, here filled beforehand.
// produce puts a write with immediate, and poll decodes completions, as a provider's Poll does.
type cqRing interface {
	produce(cookie, imm, length uint32)
	poll(dst []backend.Completion) int
	// rewind makes everything that was produced new again.
	rewind()
}

// A uverbsWC is a completion of rxe: struct ib_uverbs_wc (kernel rdma/ib_user_verbs.h), 48 bytes in a
// slot of 64 (rdma/rdma_user_rxe.h: elements are rounded up to a power of two).
//
//nolint:unused // every field is there for its offset, which TestRingLayouts checks
type uverbsWC struct {
	wrID             uint64
	status, opcode   uint32
	vendorErr        uint32
	byteLen          uint32
	imm              uint32 // big endian
	qpNum, srcQP     uint32
	wcFlags          uint32
	pkeyIndex, slid  uint16
	sl, path, port   uint8
	_                uint8
	restOfTheElement [16]byte
}

const (
	wcSuccess     = 0   // IB_WC_SUCCESS
	wcRecvRDMAImm = 129 // IB_WC_RECV_RDMA_WITH_IMM
)

// A rxeRing is the queue of providers/rxe: indices in shared memory, the producer's read once a poll
// and the consumer's written once.
type rxeRing struct {
	producer, consumer atomic.Uint32
	mask               uint32
	wc                 []uverbsWC
}

// newRxeRing has room for n completions, a power of two, and one slot that stays empty.
func newRxeRing(n int) *rxeRing {
	return &rxeRing{mask: uint32(2*n - 1), wc: make([]uverbsWC, 2*n)}
}

func (r *rxeRing) produce(cookie, imm, length uint32) {
	p := r.producer.Load()
	// The posted receive's wr_id is ours: it carries the cookie.
	r.wc[p] = uverbsWC{
		wrID: uint64(cookie), status: wcSuccess, opcode: wcRecvRDMAImm, byteLen: length, imm: bits.ReverseBytes32(imm),
		qpNum: cookie + 17, wcFlags: 2,
	}
	r.producer.Store(p + 1)
}

func (r *rxeRing) rewind() { r.consumer.Store(0) }

func (r *rxeRing) poll(dst []backend.Completion) int {
	c := r.consumer.Load()
	n := min(len(dst), int((r.producer.Load()-c)&r.mask))
	for i := range dst[:n] {
		w, d := &r.wc[(c+uint32(i))&r.mask&uint32(len(r.wc)-1)], &dst[i]
		d.WRID, d.Cookie = w.wrID, uint32(w.wrID)
		d.Imm, d.Len = bits.ReverseBytes32(w.imm), w.byteLen
		d.Kind, d.Status = backend.KindWrite, backend.StatusOK
		if w.status != wcSuccess || w.opcode != wcRecvRDMAImm {
			d.Kind, d.Status = backend.KindSent, backend.StatusError
		}
	}
	r.consumer.Store((c + uint32(n)) & r.mask)
	return n
}

// A cqe64 is a completion of mlx5: struct mlx5_cqe64 (providers/mlx5/mlx5dv.h), big-endian words.
type cqe64 [16]uint32

// Words of a cqe64.
const (
	cqeUserIndex = 32 / 4 // srqn_uidx: low 24 bits are the user's index of the queue pair
	cqeImm       = 36 / 4
	cqeByteCount = 44 / 4
	cqeQPN       = 56 / 4
	cqeOwner     = 60 / 4 // wqe_counter 16, signature 8, op_own 8

	cqeRespWriteImm = 1
	cqeInvalid      = 15
)

// An mlx5Ring is the queue of providers/mlx5: completions carry the parity of their turn round the
// ring, and a doorbell record takes the consumer index once a poll.
type mlx5Ring struct {
	cqe      []cqe64
	log      uint
	produced uint32
	consumer uint32
	doorbell atomic.Uint32
}

// newMlx5Ring has room for n completions, a power of two.
func newMlx5Ring(n int) *mlx5Ring {
	// One that is never produced ends the ring.
	r := &mlx5Ring{cqe: make([]cqe64, 2*n), log: uint(bits.TrailingZeros(uint(2 * n)))}
	for i := range r.cqe {
		r.cqe[i][cqeOwner] = bits.ReverseBytes32(cqeInvalid<<4 | 1)
	}
	return r
}

func (r *mlx5Ring) produce(cookie, imm, length uint32) {
	e := &r.cqe[r.produced&uint32(len(r.cqe)-1)]
	e[cqeUserIndex] = bits.ReverseBytes32(cookie)
	e[cqeImm] = bits.ReverseBytes32(imm)
	e[cqeByteCount] = bits.ReverseBytes32(length)
	e[cqeQPN] = bits.ReverseBytes32(cookie + 17)
	own := r.produced >> r.log & 1
	atomic.StoreUint32(&e[cqeOwner], bits.ReverseBytes32(r.produced&0xffff<<16|cqeRespWriteImm<<4|own))
	r.produced++
}

func (r *mlx5Ring) rewind() { r.consumer = 0 }

func (r *mlx5Ring) poll(dst []backend.Completion) int {
	n, ci := 0, r.consumer
	for ; n < len(dst); n++ {
		e := &r.cqe[ci&uint32(len(r.cqe)-1)]
		// The owner bit first, then the rest (mlx5_get_next_cqe).
		own := bits.ReverseBytes32(atomic.LoadUint32(&e[cqeOwner]))
		opcode := own >> 4 & 15
		if opcode == cqeInvalid || own&1 != ci>>r.log&1 {
			break
		}
		d := &dst[n]
		d.WRID = uint64(own >> 16)
		d.Cookie = bits.ReverseBytes32(e[cqeUserIndex]) & 0xffffff
		d.Imm, d.Len = bits.ReverseBytes32(e[cqeImm]), bits.ReverseBytes32(e[cqeByteCount])
		d.Kind, d.Status = backend.KindWrite, backend.StatusOK
		if opcode != cqeRespWriteImm {
			d.Kind, d.Status = backend.KindSent, backend.StatusError
		}
		ci++
	}
	r.consumer = ci
	r.doorbell.Store(bits.ReverseBytes32(ci & 0xffffff))
	return n
}

func TestRingLayouts(t *testing.T) {
	wc := reflect.TypeFor[uverbsWC]()
	require.EqualValues(t, 64, wc.Size())
	require.EqualValues(t, 64, reflect.TypeFor[cqe64]().Size())
	for name, want := range map[string]uintptr{
		"wrID": 0, "status": 8, "opcode": 12, "vendorErr": 16, "byteLen": 20, "imm": 24, "qpNum": 28, "srcQP": 32, "wcFlags": 36,
		"pkeyIndex": 40, "slid": 42, "sl": 44, "path": 45, "port": 46, "restOfTheElement": 48,
	} {
		f, ok := wc.FieldByName(name)
		require.True(t, ok, name)
		require.Equal(t, want, f.Offset, name)
	}
}

func TestRings(t *testing.T) {
	for name, r := range map[string]cqRing{"rxe": newRxeRing(8), "mlx5": newMlx5Ring(8)} {
		for i := range uint32(8) {
			r.produce(3+i, 0x01020304+i, 4096+i)
		}
		for range 3 {
			var dst [6]backend.Completion
			require.Equal(t, 6, r.poll(dst[:]), name)
			require.Equal(t, uint32(0x01020304), dst[0].Imm, name)
			require.Equal(t, uint32(4096), dst[0].Len, name)
			require.Equal(t, uint32(3), dst[0].Cookie, name)
			require.Equal(t, backend.KindWrite, dst[0].Kind, name)
			require.Equal(t, 2, r.poll(dst[:]), name)
			require.Equal(t, uint32(0x0102030b), dst[1].Imm, name)
			require.Zero(t, r.poll(dst[:]), name)
			r.rewind()
		}
	}
}
