// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// peerPSN is PSN of testdata/ucpeer.c, both ways.
const peerPSN = 0x42

// peer is a running ucpeer: rdma-core's libibverbs at the other end.
type peer struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	qpn, rkey uint32
	addr      uint64
	gid       verbs.GID
	stderr    bytes.Buffer
}

// launch starts ucpeer on a device and reads where its end is.
func launch(t testing.TB, dev, mode string, messages, size, batch int) *peer {
	t.Helper()
	return launchProgram(t, exec.Command("/job/bin/ucpeer", dev, mode, fmt.Sprint(messages), fmt.Sprint(size), fmt.Sprint(batch)))
}

// launchProgram starts a program that speaks as ucpeer does.
func launchProgram(t testing.TB, cmd *exec.Cmd) *peer {
	t.Helper()
	p := &peer{cmd: cmd}
	p.cmd.Stderr = &p.stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start(), "ucpeer is built by test/vm -suite")
	t.Cleanup(p.kill)
	var gid string
	p.scan(t, &p.qpn, &p.rkey, &p.addr, &gid)
	p.gid, err = parseGID(gid)
	require.NoError(t, err)
	return p
}

func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// startPeer starts ucpeer on devB and connects e, which is on devA, with it.
func startPeer(t testing.TB, e *end, mode string, messages, size, batch int) *peer {
	t.Helper()
	p := launch(t, devB, mode, messages, size, batch)
	require.NoError(t, e.QP.Connect(verbs.ConnectConfig{Access: allAccess, Path: verbs.AHAttr{DGID: p.gid}, PathMTU: verbs.MTU4096,
		RemoteQPN: p.qpn, LocalPSN: peerPSN, RemotePSN: peerPSN}))
	return p
}

// tell sends our end's addresses, upon which the peer connects and starts.
func (p *peer) tell(t testing.TB, e *end) {
	t.Helper()
	p.tellEnd(t, e.QP.Num(), e.MR.RKey(), e.MR.IOVA(), e.GID)
}

func (p *peer) tellEnd(t testing.TB, qpn, rkey uint32, addr uint64, gid verbs.GID) {
	t.Helper()
	_, err := fmt.Fprintf(p.in, "%d %d %d %v\n", qpn, rkey, addr, gid)
	require.NoError(t, err)
}

func (p *peer) scan(t testing.TB, dst ...any) {
	t.Helper()
	_, err := fmt.Fscanln(p.out, dst...)
	require.NoError(t, err, "%s", &p.stderr)
}

func TestLibibverbsWritesIntoOurMemory(t *testing.T) {
	const messages, size, batch = 500, 4096, 16
	a := newEnd(t, devA, endConfig{Type: verbs.UC, Depth: 512, Buffer: size * batch})
	p := startPeer(t, a, "send", messages, size, batch)
	postRecvs(t, a, messages)
	p.tell(t, a)
	for i, wc := range poll(t, a.RCQ, messages) {
		require.Equal(t, verbs.WCSuccess, wc.Status)
		require.EqualValues(t, i, wc.Imm)
		require.EqualValues(t, size, wc.ByteLen)
	}
	for slot := range batch {
		last := messages - 1 - (messages-1-slot)%batch
		assert.Equal(t, bytes.Repeat([]byte{byte(last)}, size), a.Buf[slot*size:(slot+1)*size], "slot %d", slot)
	}
	var ns int64
	p.scan(t, &ns)
	require.NoError(t, p.cmd.Wait())
	t.Logf("libibverbs: %d messages in %v", messages, time.Duration(ns))
}

func TestWeWriteIntoLibibverbsMemory(t *testing.T) {
	const messages, size, batch = 480, 4096, 16
	a := newEnd(t, devA, endConfig{Type: verbs.UC, Buffer: size * batch})
	p := startPeer(t, a, "recv", messages, size, batch)
	p.tell(t, a)
	var ready string
	p.scan(t, &ready)
	require.Equal(t, "ready", ready)
	wrs := make([]verbs.SendWR, batch)
	for sent := 0; sent < messages; sent += batch {
		fill(a.Buf, uint64(sent))
		for i := range wrs {
			wrs[i] = verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: uint32(sent + i), Flags: verbs.SendSignaled,
				Local: a.MR.SGE(i*size, size), RemoteAddr: p.addr + uint64(i*size), RKey: p.rkey}
		}
		n, err := a.QP.PostSend(wrs)
		require.NoError(t, err)
		require.Equal(t, batch, n)
		poll(t, a.SCQ, batch)
	}
	var sum, hash uint64
	p.scan(t, &sum, &hash)
	require.NoError(t, p.cmd.Wait())
	assert.EqualValues(t, messages*(messages-1)/2, sum)
	h := fnv.New64a()
	h.Write(a.Buf)
	assert.Equal(t, h.Sum64(), hash, "memory of the peer")
}
