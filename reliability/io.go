// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"encoding/binary"
	"errors"
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
// transfers of pieceSize, up to pieceCount of them at a time, through registered memory
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

// ring is how long the buffers for a stream of total bytes, in pieces of size, are, and how many: each takes a header, too, and together
// no more than the stream fills.
func ring(size, total units.Bytes) (each units.Bytes, n int) {
	each = min(size, max(total, headerSize))
	return each, int(min(pieceCount, max(1, (total+each-1)/each)))
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

// The header is 16 bytes: the stream's size, and that of its pieces but the last. Its immediate is streamImm, and a piece's its number, so
// that neither is taken for the other or for what a caller of Send sent.
const streamImm = 0x53445246 // "SDRF"

// begin reserves a direction for a stream.
func (c *Conn) begin(ctx context.Context, op string, d *direction) error {
	if err := c.mayBlock(op, "stream"); err != nil {
		return err
	}
	err := context.Cause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
	case c.closed != nil:
		err = c.closed
	default:
		if err = d.usable(false); err == nil {
			d.streaming = true
		}
	}
	if err != nil {
		return &sdr.OpError{Op: op, Object: "stream", Err: err}
	}
	return nil
}

// errUnwound is what a stream fails with whose reader, writer or Progress doesn't return.
var errUnwound = errors.New("it panicked, or its goroutine was ended")

// untilEnd moves a stream, by move, and ends it, whatever becomes of move.
func (c *Conn) untilEnd(call string, d *direction, move func() error) (err error) {
	err = errUnwound
	defer func() { err = c.end(call, d, err) }()
	err = move()
	return err
}

// end gives the direction back, or stops it if the stream failed, and returns why.
func (c *Conn) end(call string, d *direction, err error) error {
	c.mu.Lock()
	d.streaming = false
	if err != nil {
		d.stop(d.nextID, err, "an earlier "+call+" failed")
	}
	c.mu.Unlock()
	if err != nil {
		c.qp.Kick() // Progress tells the peer
	}
	return err
}

// SendFrom sends size bytes of r to the peer's RecvTo, and returns when that has them all in memory, if not yet written: whether its WriteAt
// succeeds is not known here. Nothing else can be sent meanwhile. Ending ctx aborts it. When it
// has failed, at either end, nothing more can be sent in this direction, and calls at both ends say so: Close the Conn.
func (c *Conn) SendFrom(ctx context.Context, r io.ReaderAt, size units.Bytes, progress Progress) error {
	if size < 0 || size > maxStream {
		return &sdr.OpError{Op: "send", Object: "stream", Err: sdr.ErrArgument, Detail: fmt.Sprintf("a size of %d", size),
			Fix: fmt.Sprintf("give the number of bytes, 0 to %d", maxStream)}
	}
	each, n := ring(pieceSize, size)
	p, err := c.newPieces(each, n, 0)
	if err != nil {
		return err
	}
	defer p.close()
	if err := c.begin(ctx, "send", &c.out.direction); err != nil {
		return err
	}
	return c.untilEnd("SendFrom", &c.out.direction, func() error {
		err := c.sendStream(ctx, p, r, size, progress)
		if errors.Is(err, errEarly) {
			err = &sdr.OpError{Op: "send", Object: "stream", Err: err, Detail: "the peer's RecvTo failed"}
		}
		return err
	})
}

func (c *Conn) sendStream(ctx context.Context, p *pieces, r io.ReaderAt, size units.Bytes, progress Progress) error {
	binary.BigEndian.PutUint64(p.buf, uint64(size))
	binary.BigEndian.PutUint64(p.buf[8:], uint64(p.size))
	t, err := c.startSend(p.mr, 0, headerSize, SendOptions{Imm: streamImm, HasImm: true}, true)
	if err != nil {
		return err
	}
	if err := t.wait(ctx); err != nil {
		return err
	}
	return c.pipeline(ctx, p, p.count(size), size, progress,
		func(i int) (*Transfer, error) {
			n := p.pieceLen(i, size)
			if err := readFull(r, p.bytes(i, n), int64(i)*int64(p.size)); err != nil {
				return nil, err
			}
			return c.startSend(p.mr, p.off(i), n, SendOptions{Imm: uint32(i), HasImm: true}, true)
		}, nil)
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
// offsets but not in any order of time. It returns how much it has written, from the beginning on. Nothing else can be received meanwhile. Ending
// ctx ends it, at the latest when the WriteAt under way returns. What holds of SendFrom when it has failed holds of RecvTo.
func (c *Conn) RecvTo(ctx context.Context, w io.WriterAt, progress Progress) (units.Bytes, error) {
	h, err := c.newPieces(headerSize, 1, sdr.AccessRemoteWrite)
	if err != nil {
		return 0, err
	}
	defer h.close()
	if err := c.begin(ctx, "receive", &c.in.direction); err != nil {
		return 0, err
	}
	var written units.Bytes
	err = c.untilEnd("RecvTo", &c.in.direction, func() (err error) {
		written, err = c.recvStream(ctx, h, w, progress)
		if errors.Is(err, sdr.ErrAborted) && !errors.Is(err, errPeerSends) {
			err = &sdr.OpError{Op: "receive", Object: "stream", Err: err, Detail: "the peer's SendFrom failed"}
		}
		return err
	})
	return written, err
}

func (c *Conn) recvStream(ctx context.Context, h *pieces, w io.WriterAt, progress Progress) (written units.Bytes, err error) {
	total, size, err := c.recvHeader(ctx, h)
	if err != nil {
		return 0, err
	}
	each, n := ring(size, total)
	p, err := c.newPieces(each, n, sdr.AccessRemoteWrite)
	if err != nil {
		return 0, err
	}
	defer p.close()
	err = c.pipeline(ctx, p, p.count(total), total, progress,
		func(i int) (*Transfer, error) { return c.startRecv(p.mr, p.off(i), p.pieceLen(i, total), true) },
		func(i int, t *Transfer) error {
			got, want := t.Result(), p.pieceLen(i, total)
			if got.Length != want || !got.HasImm || got.Imm != uint32(i) {
				return &sdr.OpError{Op: "receive", Object: "stream", Err: sdr.ErrMismatch,
					Detail: fmt.Sprintf("the peer sent %d bytes that are not piece %d of %d", got.Length, i, want), Fix: "use SendFrom at one end and RecvTo at the other"}
			}
			n, err := w.WriteAt(p.bytes(i, want), int64(i)*int64(p.size))
			written += units.Bytes(min(max(n, 0), int(want)))
			if err == nil && units.Bytes(n) != want {
				err = io.ErrShortWrite
			}
			return err
		})
	return written, err
}

func (c *Conn) recvHeader(ctx context.Context, h *pieces) (total, size units.Bytes, err error) {
	t, err := c.startRecv(h.mr, 0, headerSize, true)
	if err != nil {
		return 0, 0, err
	}
	if err := t.wait(ctx); err != nil {
		return 0, 0, err
	}
	got := t.Result()
	total, size = units.Bytes(binary.BigEndian.Uint64(h.buf)), units.Bytes(binary.BigEndian.Uint64(h.buf[8:]))
	if got.Length != headerSize || !got.HasImm || got.Imm != streamImm || total < 0 || total > maxStream || size <= 0 || size > maxPiece {
		return 0, 0, &sdr.OpError{Op: "receive", Object: "stream", Err: sdr.ErrMismatch, Detail: "this is not the header of a stream: the peer must use SendFrom"}
	}
	return total, size, nil
}

// pipeline keeps up to p.n transfers unfinished at a time: start begins piece i, and finish, nil for nothing,
// handles it when it has arrived. On an error it waits for those that it has started.
func (c *Conn) pipeline(ctx context.Context, p *pieces, n int, total units.Bytes, progress Progress,
	start func(int) (*Transfer, error), finish func(int, *Transfer) error) (err error) {
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
			// A transfer that has ended says nothing of ctx, and with a slow disk they all have.
			if err := context.Cause(ctx); err != nil {
				return err
			}
			t, err := start(started)
			if err != nil {
				return err
			}
			under = append(under, t)
		}
		if err = under[0].Wait(ctx); err != nil {
			return err
		}
		if finish != nil {
			if err = context.Cause(ctx); err != nil {
				return err
			}
			if err = finish(finished, under[0]); err != nil {
				return err
			}
		}
		under = under[1:]
		if progress != nil {
			progress(min(total, units.Bytes(finished+1)*p.size), total)
		}
	}
	return nil
}
