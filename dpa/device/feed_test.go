// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
)

// Commands of src/qemu.c.
const (
	setUp = iota + 1
	openMessage
	closeMessage
	dropMessage
	setLength
	batch
	state
	counters
)

const cqeSize = 64

// A completion of mlx5, and the values that its fields have.
type cqe [cqeSize]byte

const (
	opcodeWriteImm = 1
	opcodeSend     = 2
	opcodeError    = 14
	opcodeInvalid  = 15
)

// reserved is in the byte above the user index, which isn't part of it.
const reserved = 0x2d << 24

func newCQE(opcode int, user, imm, length uint32) (e cqe) {
	binary.BigEndian.PutUint32(e[32:], reserved|user)
	binary.BigEndian.PutUint32(e[36:], imm)
	binary.BigEndian.PutUint32(e[44:], length)
	e[63] = byte(opcode << 4)
	return e
}

// decode is what a provider makes of a completion for package dpa.
func (e *cqe) decode() backend.Completion {
	c := backend.Completion{
		Cookie: binary.BigEndian.Uint32(e[32:]) & 0xffffff,
		Imm:    binary.BigEndian.Uint32(e[36:]),
		Len:    binary.BigEndian.Uint32(e[44:]),
		Kind:   backend.KindWrite, Status: backend.StatusOK,
	}
	switch e[63] >> 4 {
	case opcodeWriteImm:
	case opcodeError:
		c.Status = backend.StatusError
	default:
		c.Kind = backend.KindSent
	}
	return c
}

// A device is the handler under qemu-user. The first error is kept: what follows is then of no meaning.
type device struct {
	cmd    *exec.Cmd
	in     *bufio.Writer
	closer io.Closer
	out    *bufio.Reader
	stderr bytes.Buffer
	err    error
}

func startDevice(t *testing.T, program string) *device {
	t.Helper()
	d := &device{cmd: emulated(t, nil, program, "feed")}
	in, err := d.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	d.cmd.Stderr = &d.stderr
	d.in, d.closer, d.out = bufio.NewWriterSize(in, 1<<16), in, bufio.NewReaderSize(out, 1<<16)
	require.NoError(t, d.cmd.Start())
	return d
}

// stop ends the program and returns the first error.
func (d *device) stop() error {
	_ = d.closer.Close()
	err := d.cmd.Wait()
	if d.err != nil {
		return fmt.Errorf("%w (%v) %s", d.err, err, d.stderr.String())
	}
	return err
}

func (d *device) keep(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *device) command(op uint32, args ...uint32) {
	var b [32]byte
	binary.LittleEndian.PutUint32(b[:], op)
	for i, a := range args {
		binary.LittleEndian.PutUint32(b[4*i+4:], a)
	}
	_, err := d.in.Write(b[:])
	d.keep(err)
}

func (d *device) read(v any) {
	d.keep(d.in.Flush())
	if d.err == nil {
		d.keep(binary.Read(d.out, binary.LittleEndian, v))
	}
}

// verdict is what the handler says after a batch: counts modulo 2^32, 2^24 and 2^16.
type verdict struct {
	Handled, CQRecord, RQRecord, Armed, Epoch, Emptied, Rescheduled, Disordered uint32
}

func (d *device) batch(comps []cqe, budget int) (v verdict) {
	d.command(batch, uint32(len(comps)), uint32(budget))
	for i := range comps {
		_, err := d.in.Write(comps[i][:])
		d.keep(err)
	}
	d.read(&v)
	return v
}

// deviceCounters is struct sdr_counters.
type deviceCounters struct {
	Packets, Duplicates, Stale, Length, Aside, Fragments, Probes, Invalid, Repairs, Other uint64
}

func countersOf(w *dpa.Worker, other uint64) deviceCounters {
	c := &w.Counters
	return deviceCounters{
		c.Packets.Load(), c.Duplicates.Load(), c.Stale.Load(), c.Length.Load(), c.Aside.Load(),
		c.Fragments.Load(), c.Probes.Load(), c.Invalid.Load(), c.Repairs.Load(), other,
	}
}
