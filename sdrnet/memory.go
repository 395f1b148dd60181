// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Memory is registered memory, which devices read and write without a copy.
type Memory struct {
	mr *sdr.MR

	mu    sync.Mutex
	own   []byte // to be freed with it, or nil; +checklocks:mu
	freed bool   // +checklocks:mu
}

// Alloc returns n bytes of zeroed, page-aligned, registered memory outside the Go heap. Close it
// before the Conn.
func (c *Conn) Alloc(n int) (*Memory, error) {
	b, err := sdr.AllocBuffer(units.Bytes(n))
	if err != nil {
		return nil, err
	}
	m, err := c.register(b, b)
	if err != nil {
		return nil, errors.Join(err, sdr.FreeBuffer(b))
	}
	return m, nil
}

// Register makes b usable for SendMemory and RecvMemory until Close. b must stay allocated until then;
// on a device of the kernel it is pinned, which counts against the memlock limit. Connections that share a device
// (see Dial) share it, too.
func (c *Conn) Register(b []byte) (*Memory, error) { return c.register(b, nil) }

// register is Register; own, if not nil, is freed with the Memory.
func (c *Conn) register(b, own []byte) (*Memory, error) {
	var mr *sdr.MR
	err := sdr.ErrClosed // also when others of its Listener keep the device open
	if !c.closed() {
		mr, err = c.host.endpoint.RegisterMemory(b, sdr.AccessRemoteWrite)
	}
	if err != nil {
		return nil, c.translate(operr.Wrap("register memory", units.Bytes(len(b)).String(), err))
	}
	return &Memory{mr: mr, own: own}, nil
}

// region is what a transfer takes, which refuses nil.
func (m *Memory) region() *sdr.MR {
	if m == nil {
		return nil
	}
	return m.mr
}

// Bytes is the memory, nil when Close has freed it.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.freed {
		return nil
	}
	return m.mr.Bytes()
}

// Close deregisters the memory, and frees what Alloc allocated: what Bytes returned must not be used any more, which would end the
// process. It returns sdr.ErrBusy while a call uses it, from its begin on. It is idempotent.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.mr.Close(); err != nil || m.own == nil {
		return err
	}
	b := m.own
	m.own, m.freed = nil, true
	return sdr.FreeBuffer(b)
}

// SendOptions and RecvResult are those of package reliability: an immediate, 32 bits that arrive with the bytes.
type (
	SendOptions = reliability.SendOptions
	RecvResult  = reliability.RecvResult
)

// SendMemory sends n bytes at off of m to the peer's RecvMemory and returns when the peer has them. The
// k-th call meets the peer's k-th; it waits for that without limit while the peer lives. A call that is
// refused at once, for memory that is closed or another device's or for a range outside it, counts at neither
// end. The memory must not change meanwhile. Ending ctx gives the transfer up at both ends; SendMemory returns
// when the memory is the caller's again.
//
// Several goroutines may call it, or RecvMemory, at a time. In which order these calls count nobody knows then, and they end in any order, whichever
// began first. Who wants many receives posted ahead, each for a block of its own, or memory that serves many peers, takes
// package reliability: see there, "Many peers".
func (c *Conn) SendMemory(ctx context.Context, m *Memory, off, n int, o SendOptions) error {
	return c.sendError(endedBy(ctx, c.lane[memoryLane].Send(ctx, m.region(), units.Bytes(off), units.Bytes(n), o)))
}

// RecvMemory receives what the peer's SendMemory sends into n bytes at off of m and returns how many
// bytes came, and their immediate. A longer transfer fails at both ends, with sdr.ErrTooLong. Ending ctx gives
// the transfer up, as for SendMemory; when the peer's SendMemory has returned nil, so does RecvMemory, whether
// ctx has ended or not.
func (c *Conn) RecvMemory(ctx context.Context, m *Memory, off, n int) (RecvResult, error) {
	got, err := c.lane[memoryLane].Recv(ctx, m.region(), units.Bytes(off), units.Bytes(n))
	return got, c.recvError(endedBy(ctx, err))
}

// Progress gets how far a transfer of SendFrom, RecvTo, SendFile or RecvFile has got, in bytes. It is called from the caller's
// goroutine and may be nil.
type Progress = reliability.Progress

// SendFrom sends size bytes of r to the peer's RecvTo, bytes alone: SendFile tells what a file is called, too, and whether it has arrived
// as it was. It returns when the peer has them all in its memory; the peer's RecvTo may still be writing them, and fail at it. It counts as one
// call of SendMemory in the order of calls, and while it runs others are refused with sdr.ErrBusy.
//
// Ending ctx gives it up at both ends. When it has failed at either end, for whatever reason, SendMemory and SendFrom
// at this end and RecvMemory and RecvTo at the other fail from then on with an error that wraps net.ErrClosed and says
// what failed first: how far the other end had got is not known, so that bytes of one call might be taken for another's.
// Messages and the other direction are as before; to go on, close the Conn and dial again.
func (c *Conn) SendFrom(ctx context.Context, r io.ReaderAt, size int64, p Progress) error {
	return c.sendError(endedBy(ctx, c.lane[memoryLane].SendFrom(ctx, r, units.Bytes(size), p)))
}

// RecvTo receives what the peer's SendFrom sends, writes it to w at its offsets but not in any order
// of time, and returns how much it has written, from the beginning on. That may be less than was sent only if it fails. While it
// runs, other calls of it and of RecvMemory are refused with sdr.ErrBusy; what SendFrom says of failures holds for it, too.
func (c *Conn) RecvTo(ctx context.Context, w io.WriterAt, p Progress) (int64, error) {
	n, err := c.lane[memoryLane].RecvTo(ctx, w, p)
	return int64(n), c.recvError(endedBy(ctx, err))
}
