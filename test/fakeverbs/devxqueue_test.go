// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// commandContext is a context with a doorbell page, a protection domain and memory for queues, for firmware commands only.
func commandContext() (c *context, memory *umem) {
	d := &Device{driver: mlx5{}, mu: &sync.Mutex{}, qps: map[uint32]*queuePair{}, keys: map[uint32]*key{}, lastNumber: 0x100}
	c = &context{device: d, devx: true, objects: map[uint32]object{}, uars: map[uint32]*uar{}}
	c.uars[3] = &uar{ctx: c, page: 3}
	c.add(&pd{number: 7})
	memory = &umem{number: 9, addr: 1 << 20, length: 1 << 20, writable: true}
	c.add(memory)
	c.add(&umem{number: 10, addr: 1 << 21, length: 64})
	return c, memory
}

// createCQ is a command for a CQ of 256 entries.
func createCQ() []byte {
	in := make([]byte, 272)
	be.PutUint16(in, opCreateCQ)
	be.PutUint32(in[88:], 9)
	in[92] = 1 << 7
	cqc := in[16:]
	cqc[0] = 1 << 1
	be.PutUint32(cqc[4:], 10)
	be.PutUint32(cqc[12:], 8<<24|3)
	be.PutUint32(cqc[20:], eqn(0))
	return in
}

// createQP is a command for a UC queue pair on two CQs, with 64 receives and 128 blocks.
func createQP(send, recv uint32) []byte {
	in := make([]byte, 272)
	be.PutUint16(in, opCreateQP)
	be.PutUint64(in[256:], 1<<16)
	be.PutUint32(in[264:], 9)
	in[268] = 1 << 7
	qpc := in[24:]
	qpc[1], qpc[2] = 1, 3<<3
	be.PutUint32(qpc[4:], 7)
	qpc[9], qpc[10] = 6<<3, 7<<3
	be.PutUint32(qpc[12:], 3)
	be.PutUint32(qpc[16:], 42)
	be.PutUint32(qpc[124:], send)
	be.PutUint32(qpc[156:], recv)
	be.PutUint64(qpc[160:], 8)
	qpc[208] = 1 << 4
	be.PutUint32(qpc[228:], 10)
	return in
}

// A change of a command, and how firmware answers it.
type refusal struct {
	name   string
	change func(in []byte)
	want   status
}

// TestQueuesByCommand makes a CQ and a UC queue pair by firmware commands, and takes the pair through its states.
func TestQueuesByCommand(t *testing.T) {
	c, memory := commandContext()
	cq, cqn, s := c.newDEVXCQ(createCQ())
	require.Equal(t, statusOK, s)
	handle := c.add(cq)
	made, qpn, s := c.newDEVXQP(createQP(cqn, cqn))
	require.Equal(t, statusOK, s)
	q := made.object.(*queuePair)
	require.Same(t, q, c.device.qps[qpn])
	require.EqualValues(t, []any{uint32(qptUC), uint32(64), uint32(128), uint32(42)}, []any{q.kind, q.rqEntries, q.sqBlocks, q.userIndex})
	require.EqualValues(t, memory.addr+1<<16, q.buf)
	require.EqualValues(t, 1<<21+8, q.record)
	require.Equal(t, unix.EBUSY, remove[devxQueue](c, handle), "the pair uses it")
	require.Equal(t, unix.EREMOTEIO, memory.destroy(nil))

	command := func(op uint16, set func(qpc []byte)) status {
		in := make([]byte, 272)
		be.PutUint16(in, op)
		qpc := in[24:]
		qpc[24+37] = portNumber
		set(qpc)
		return q.command(in)
	}
	initial := func(qpc []byte) { qpc[146] = 1 << 6 }
	ready := func(qpc []byte) {
		qpc[8] = 5<<5 | 30
		be.PutUint32(qpc[20:], 0x123)
		be.PutUint32(qpc[148:], 0x456)
		qpc[24+11] = 64
		be.PutUint16(qpc[24+34:], 0xc123)
		qpc[24+16+15] = 1
	}
	require.Equal(t, statusBadState, command(opINIT2RTR, ready), "before INIT")
	require.Equal(t, statusBadParam, command(opRST2INIT, func(qpc []byte) { qpc[24+37] = 2 }), "a port that isn't there")
	require.Equal(t, statusBadLength, q.command([]byte{opRST2INIT >> 8, opRST2INIT & 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}))
	require.Equal(t, statusOK, command(opRST2INIT, initial))
	require.Equal(t, localWrite|remoteWrite, q.rights())
	for _, r := range []refusal{
		{"no MTU", func(qpc []byte) { qpc[8] = 30 }, statusBadParam},
		{"an MTU of 8192", func(qpc []byte) { qpc[8] = 6<<5 | 30 }, statusBadParam},
		{"messages below the MTU", func(qpc []byte) { qpc[8] = 5<<5 | 11 }, statusBadParam},
		{"a GID that isn't there", func(qpc []byte) { qpc[24+9] = 1 }, statusBadParam},
		{"no hop", func(qpc []byte) { qpc[24+11] = 0 }, statusBadParam},
		{"a source port that isn't RoCE's", func(qpc []byte) { be.PutUint16(qpc[24+34:], 4791) }, statusBadParam},
	} {
		require.Equal(t, r.want, command(opINIT2RTR, func(qpc []byte) { ready(qpc); r.change(qpc) }), r.name)
		require.Equal(t, stateInit, q.state, r.name)
	}
	require.Equal(t, statusOK, command(opINIT2RTR, ready))
	require.EqualValues(t, []any{uint32(0x123), 4096, uint16(0xc123)}, []any{q.destQPN(), q.pathMTU(), q.sourcePort()})
	require.EqualValues(t, 0x456, q.expectedPSN)
	require.Equal(t, statusOK, command(opRTR2RTS, func(qpc []byte) { be.PutUint32(qpc[120:], 0x789) }))
	require.EqualValues(t, 0x789, q.nextPSN)
	require.Equal(t, statusBadState, command(opRTR2RTS, func([]byte) {}))
	require.Equal(t, statusOK, command(op2ERR, func([]byte) {}))
	require.Equal(t, statusOK, command(op2RST, func([]byte) {}))
	require.Equal(t, stateReset, q.state)

	require.Zero(t, made.destroy(c.device))
	require.Zero(t, remove[devxQueue](c, handle))
	require.Zero(t, memory.destroy(nil))
	require.Zero(t, c.uars[3].users)
	require.Empty(t, c.device.qps)
}

// TestQueueCommandsRefused: what firmware refuses leaves nothing.
func TestQueueCommandsRefused(t *testing.T) {
	c, memory := commandContext()
	o, cqn, s := c.newDEVXCQ(createCQ())
	require.Equal(t, statusOK, s)
	c.add(o)
	users := memory.users
	for _, r := range []refusal{
		{"memory by physical addresses", func(in []byte) { in[92] = 0 }, statusBadParam},
		{"a record by its physical address", func(in []byte) { in[16] = 0 }, statusBadParam},
		{"collapsed", func(in []byte) { in[17] |= 1 << 4 }, statusBadParam},
		{"entries of 256 bytes", func(in []byte) { in[17] |= 2 << 5 }, statusBadParam},
		{"2^23 entries", func(in []byte) { in[28] = 23 }, statusBadParam},
		{"no such page", func(in []byte) { in[31] = 4 }, statusBadParam},
		{"no such event queue", func(in []byte) { in[39] = 0 }, statusBadParam},
		{"no such memory", func(in []byte) { in[91] = 8 }, statusBadResource},
		{"memory that can't be written", func(in []byte) { in[91], in[28] = 10, 0 }, statusBadResource},
		{"beyond the memory", func(in []byte) { be.PutUint64(in[80:], 1<<20-64*255) }, statusBadResource},
		{"between two lines", func(in []byte) { be.PutUint64(in[80:], 8) }, statusBadResource},
		{"a record beyond its memory", func(in []byte) { be.PutUint64(in[72:], 64) }, statusBadResource},
	} {
		in := createCQ()
		r.change(in)
		_, _, s := c.newDEVXCQ(in)
		require.Equal(t, r.want, s, "CQ: %s", r.name)
	}
	for _, r := range []refusal{
		{"a service that isn't there", func(qpc []byte) { qpc[1] = 9 }, statusBadParam},
		{"not migrated", func(qpc []byte) { qpc[2] = 0 }, statusBadParam},
		{"a shared receive queue", func(qpc []byte) { qpc[172] = 1 }, statusBadParam},
		{"no such page", func(qpc []byte) { qpc[15] = 4 }, statusBadParam},
		{"a record by its physical address", func(qpc []byte) { qpc[208] = 0 }, statusBadParam},
		{"no such protection domain", func(qpc []byte) { qpc[7] = 8 }, statusBadResource},
		{"no such CQ for sends", func(qpc []byte) { qpc[127]++ }, statusBadResource},
		{"no such CQ for receives", func(qpc []byte) { qpc[159]++ }, statusBadResource},
		{"no such record", func(qpc []byte) { qpc[231] = 11 }, statusBadResource},
		{"a record between two", func(qpc []byte) { qpc[167] = 4 }, statusBadResource},
		{"a queue beyond its memory", func(qpc []byte) { qpc[10] = 14 << 3 }, statusBadResource},
	} {
		in := createQP(cqn, cqn)
		r.change(in[24:256])
		_, _, s := c.newDEVXQP(in)
		require.Equal(t, r.want, s, "QP: %s", r.name)
	}
	_, _, s = c.newDEVXQP(slices.Clip(createQP(cqn, cqn)[:200]))
	require.Equal(t, statusBadLength, s)
	require.Empty(t, c.device.qps)
	require.Equal(t, users, memory.users)
}
