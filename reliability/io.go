// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Progress is called with how far a SendFrom or RecvTo has got. It is called from the
// caller's goroutine, first with done 0, then after each piece, and may be nil.
type Progress func(done, total units.Bytes)

// SendFrom and RecvTo move a stream of known size as a header transfer and then
// transfers of pieceSize, pieceCount of them at a time, through registered memory
// of their own: so much must cover the bandwidth-delay product.
const (
	pieceSize  = 8 * units.MiB
	pieceCount = 8
	headerSize = 16
	// maxPiece bounds what a peer's header can make RecvTo allocate.
	maxPiece = 64 * units.MiB
	// maxStream leaves room to round a size up to pieces.
	maxStream = math.MaxInt64 - maxPiece
)

// A pieces is a ring of buffers for SendFrom and RecvTo.
type pieces struct {
	buf  []byte
	mr   *sdr.MR
	size units.Bytes
	n    int
}

func (c *Conn) newPieces(size units.Bytes, n int, access sdr.Access) (*pieces, error) {
	buf, err := sdr.AllocBuffer(size * units.Bytes(n))
	if err != nil {
		return nil, err
	}
	mr, err := c.qp.Endpoint().RegisterMemory(buf, access)
	if err != nil {
		_ = sdr.FreeBuffer(buf)
		return nil, err
	}
	return &pieces{buf, mr, size, n}, nil
}

// close frees the buffers; no transfer uses them any more.
func (p *pieces) close() {
	if p.mr.Close() == nil {
		_ = sdr.FreeBuffer(p.buf)
	}
}

func (p *pieces) off(i int) units.Bytes { return units.Bytes(i%p.n) * p.size }

func (p *pieces) bytes(i int, n units.Bytes) []byte { return p.buf[p.off(i) : p.off(i)+n] }

// pieceLen is the length of piece i of total bytes.
func (p *pieces) pieceLen(i int, total units.Bytes) units.Bytes {
	return min(p.size, total-units.Bytes(i)*p.size)
}

func (p *pieces) count(total units.Bytes) int { return int((total + p.size - 1) / p.size) }

// SendFrom sends size bytes of r to the peer's RecvTo. Ending ctx aborts it.
func (c *Conn) SendFrom(ctx context.Context, r io.ReaderAt, size units.Bytes, progress Progress) error {
	if size < 0 {
		return &sdr.OpError{Op: "send", Object: "stream", Err: sdr.ErrArgument, Detail: "negative size"}
	}
	p, err := c.newPieces(max(min(pieceSize, size), headerSize), pieceCount, 0)
	if err != nil {
		return err
	}
	defer p.close()
	binary.BigEndian.PutUint64(p.buf, uint64(size))
	binary.BigEndian.PutUint64(p.buf[8:], uint64(p.size))
	if err := c.Send(ctx, p.mr, 0, headerSize, SendOptions{}); err != nil {
		return err
	}
	return c.pipeline(ctx, p, p.count(size), size, progress,
		func(i int) (*Transfer, error) {
			n := p.pieceLen(i, size)
			if err := readFull(r, p.bytes(i, n), int64(i)*int64(p.size)); err != nil {
				return nil, err
			}
			return c.StartSend(p.mr, p.off(i), n, SendOptions{})
		},
		func(int) error { return nil })
}

func readFull(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), off, err)
}

// RecvTo receives what the peer's SendFrom sends and writes it to w, at its
// offsets but not in any order of time. It returns the size. Ending ctx ends it.
func (c *Conn) RecvTo(ctx context.Context, w io.WriterAt, progress Progress) (units.Bytes, error) {
	total, size, err := c.recvHeader(ctx)
	if err != nil {
		return 0, err
	}
	p, err := c.newPieces(size, pieceCount, sdr.AccessRemoteWrite)
	if err != nil {
		return 0, err
	}
	defer p.close()
	err = c.pipeline(ctx, p, p.count(total), total, progress,
		func(i int) (*Transfer, error) { return c.StartRecv(p.mr, p.off(i), p.pieceLen(i, total)) },
		func(i int) error {
			_, err := w.WriteAt(p.bytes(i, p.pieceLen(i, total)), int64(i)*int64(p.size))
			return err
		})
	return total, err
}

func (c *Conn) recvHeader(ctx context.Context) (total, size units.Bytes, err error) {
	p, err := c.newPieces(headerSize, 1, sdr.AccessRemoteWrite)
	if err != nil {
		return 0, 0, err
	}
	defer p.close()
	got, err := c.Recv(ctx, p.mr, 0, headerSize)
	if err != nil {
		return 0, 0, err
	}
	total, size = units.Bytes(binary.BigEndian.Uint64(p.buf)), units.Bytes(binary.BigEndian.Uint64(p.buf[8:]))
	if got.Length != headerSize || total < 0 || total > maxStream || size <= 0 || size > maxPiece {
		return 0, 0, &sdr.OpError{Op: "receive", Object: "stream", Err: sdr.ErrMismatch, Detail: "this is not the header of a stream: the peer must use SendFrom"}
	}
	return total, size, nil
}

// pipeline keeps up to p.n transfers unfinished at a time: start begins piece i, and finish
// handles it when it has arrived. On an error it waits for those that it has started.
func (c *Conn) pipeline(ctx context.Context, p *pieces, n int, total units.Bytes, progress Progress,
	start func(int) (*Transfer, error), finish func(int) error) (err error) {
	var under []*Transfer
	defer func() {
		for _, t := range under {
			t.Cancel(err)
		}
		for _, t := range under {
			<-t.done
		}
	}()
	if progress != nil {
		progress(0, total)
	}
	for started, finished := 0, 0; finished < n; finished++ {
		for ; started < min(n, finished+p.n); started++ {
			t, err := start(started)
			if err != nil {
				return err
			}
			under = append(under, t)
		}
		if err = under[0].Wait(ctx); err != nil {
			return err
		}
		under = under[1:]
		if err = finish(finished); err != nil {
			return err
		}
		if progress != nil {
			progress(min(total, units.Bytes(finished+1)*p.size), total)
		}
	}
	return nil
}
