// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// requestsEnv is the number of requests of each transport that TestLibMLX5SameBytes makes, and seedEnv where they
// begin.
const (
	requestsEnv = "SDR_FAKEVERBS_REQUESTS"
	seedEnv     = "SDR_FAKEVERBS_SEED"
)

// TestLibMLX5SameBytes gives the same random requests to libmlx5 and to our provider, on queues of the same size, and
// compares what the device sees with each doorbell: the value stored, the doorbell record, all blocks of the send queue that
// were posted, and the receive queue. With BlueFlame it is also in which of the page's registers the value is stored, and what of a request
// was copied there; without, libmlx5 does the same, but our page has one register and no buffer, so that these two are not compared.
func TestLibMLX5SameBytes(t *testing.T) {
	oracle := buildOracle(t)
	requests := number(t, requestsEnv, 1000)
	seed := uint64(number(t, seedEnv, int(time.Now().UnixNano()&0xffff)))
	for _, typ := range []verbs.QPType{verbs.UC, verbs.RC, verbs.UD} {
		t.Run(typ.String(), func(t *testing.T) {
			t.Logf("%s=%d", seedEnv, seed)
			r := rand.New(rand.NewPCG(seed, uint64(typ)))
			w := newWorkload(r, typ, requests)
			// One request alone and without memory: of a UD queue pair it is the only kind of one block, and seldom drawn.
			w.batches = slices.Insert(w.batches, 0, []request{{inline: -1, wr: verbs.SendWR{Opcode: verbs.OpSend}}})
			theirs, blocks := w.run(t, oracle, typ)
			ours := w.post(t, typ, blocks, false)
			compare(t, withoutRegisters(doorbells(t, theirs)), withoutRegisters(doorbells(t, ours)), len(w.batches))
			compareBlueFlame(t, w, typ, blocks, theirs)
		})
	}
}

func number(t *testing.T, env string, def int) int {
	t.Helper()
	s := os.Getenv(env)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, env)
	return n
}

// buildOracle compiles the program that posts through libmlx5.
func buildOracle(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		t.Skip("libmlx5 isn't installed: apt-get install libibverbs-dev gcc")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc isn't installed: apt-get install gcc libc6-dev")
	}
	bin := filepath.Join(t.TempDir(), "oracle")
	out, err := exec.Command("gcc", "-Wall", "-Werror", "-O1", "-o", bin, "testdata/oracle.c", "-libverbs", "-lmlx5").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// request is one of a workload; inline is -1 without inline data.
type request struct {
	wr     verbs.SendWR
	inline int
}

type workload struct {
	recvs   []verbs.RecvWR
	batches [][]request
}

// Limits of the workload, as in the oracle.
const (
	depth     = 64
	maxBatch  = 8
	maxPieces = 4
	maxInline = 128
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// pieces are up to four pieces of memory, some empty.
func pieces(r *rand.Rand) []verbs.SGE {
	list := make([]verbs.SGE, r.IntN(maxPieces+1))
	for i := range list {
		list[i] = verbs.SGE{Addr: r.Uint64(), Length: r.Uint32() >> 1, LKey: r.Uint32()}
		if r.IntN(5) == 0 {
			list[i].Length = 0
		}
	}
	return list
}

func newWorkload(r *rand.Rand, typ verbs.QPType, requests int) *workload {
	opcodes := map[verbs.QPType][]verbs.SendOpcode{
		verbs.UC: {verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpSend, verbs.OpSendWithImm, verbs.OpBindMW},
		verbs.RC: {verbs.OpRDMAWrite, verbs.OpRDMAWriteWithImm, verbs.OpSend, verbs.OpSendWithImm, verbs.OpRDMARead, verbs.OpCompareSwap, verbs.OpFetchAdd,
			verbs.OpBindMW, verbs.OpLocalInv, verbs.OpSendWithInv},
		verbs.UD: {verbs.OpSend, verbs.OpSendWithImm},
	}[typ]
	w := &workload{}
	for range 1 + r.IntN(depth-1) {
		w.recvs = append(w.recvs, verbs.RecvWR{SG: pieces(r)})
	}
	for left := requests; left > 0; {
		batch := make([]request, min(left, 1+r.IntN(maxBatch)))
		left -= len(batch)
		for i := range batch {
			batch[i] = randomRequest(r, opcodes[r.IntN(len(opcodes))])
		}
		w.batches = append(w.batches, batch)
	}
	return w
}

func randomRequest(r *rand.Rand, op verbs.SendOpcode) request {
	const flags = verbs.SendFence | verbs.SendSignaled | verbs.SendSolicited
	q := request{inline: -1, wr: verbs.SendWR{Opcode: op, Flags: verbs.SendFlags(r.Uint32()) & flags, Imm: r.Uint32(), RKey: r.Uint32(),
		RemoteAddr: r.Uint64() >> 1, CompareAdd: r.Uint64() >> 1, Swap: r.Uint64() >> 1, SG: pieces(r)}}
	atomic := op == verbs.OpCompareSwap || op == verbs.OpFetchAdd
	if atomic {
		q.wr.SG = []verbs.SGE{{Addr: r.Uint64(), Length: 1 + r.Uint32N(64), LKey: r.Uint32()}} // of which 8 bytes are used
	}
	if op == verbs.OpBindMW || op == verbs.OpLocalInv {
		q.wr.SG = nil
		q.wr.Bind = randomBinding(r)
		return q
	}
	if !atomic && op != verbs.OpRDMARead && r.IntN(3) == 0 {
		q.inline = r.IntN(maxInline + 1)
		q.wr.SG = nil
	}
	return q
}

func writePieces(w *bufio.Writer, list []verbs.SGE) {
	fmt.Fprintf(w, " %d", len(list))
	for _, s := range list {
		fmt.Fprintf(w, " %d %d %d", s.Addr, s.Length, s.LKey)
	}
	fmt.Fprintln(w)
}

// run has the oracle post the workload. It returns the number of its queue pair and the size of the send queue.
func (w *workload) run(t *testing.T, oracle string, typ verbs.QPType, more ...string) (qpn uint32, blocks int) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "requests"))
	require.NoError(t, err)
	defer file.Close()
	out := bufio.NewWriter(file)
	fmt.Fprintf(out, "r %d\n", len(w.recvs))
	for _, r := range w.recvs {
		writePieces(out, r.SG)
	}
	for _, batch := range w.batches {
		fmt.Fprintf(out, "s %d\n", len(batch))
		for _, q := range batch {
			q.wr = encodeBinding(q.wr)
			fmt.Fprintf(out, "%d %d %d %d %d %d %d %d", q.wr.Opcode, q.wr.Flags, q.wr.Imm, q.wr.RemoteAddr, q.wr.RKey, q.wr.CompareAdd, q.wr.Swap, q.inline)
			writePieces(out, q.wr.SG)
		}
	}
	require.NoError(t, out.Flush())
	_, err = file.Seek(0, 0)
	require.NoError(t, err)
	cmd := exec.Command(oracle, append([]string{sink, strings.ToLower(typ.String()), strconv.Itoa(depth)}, more...)...)
	cmd.Stdin = file
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	n, err := fmt.Sscanf(string(text), "%d %d\ndone\n", &qpn, &blocks)
	require.Equal(t, 2, n, "%s: %v", text, err)
	return qpn, blocks
}

// post posts the workload through our provider, on a send queue of so many blocks.
func (w *workload) post(t *testing.T, typ verbs.QPType, blocks int, flame bool) uint32 {
	t.Helper()
	ctx, err := verbs.Open(sink)
	require.NoError(t, err)
	defer func() { require.NoError(t, ctx.Close()) }()
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(1023, nil)
	require.NoError(t, err)
	limits := verbs.QPCap{MaxSendWR: blocks / 4, MaxRecvWR: depth, MaxSendSGE: maxPieces, MaxRecvSGE: maxPieces, MaxInline: maxInline}
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: typ, SendCQ: cq, RecvCQ: cq, Cap: limits, BlueFlame: flame})
	require.NoError(t, err)
	path := verbs.AHAttr{DGID: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.2")), Port: 1, SL: 3, HopLimit: 33, TrafficClass: 44, FlowLabel: 0x54321}
	var ah *verbs.AH
	if typ == verbs.UD {
		ah, err = pd.CreateAH(path)
		require.NoError(t, err)
		require.NoError(t, qp.Activate(1, 5, 1))
	} else {
		require.NoError(t, qp.Connect(verbs.ConnectConfig{Path: path, PathMTU: verbs.MTU4096, RemoteQPN: 5}))
	}
	n, err := qp.PostRecv(w.recvs)
	require.NoError(t, err)
	require.Len(t, w.recvs, n)
	data := pattern(maxInline)
	for _, batch := range w.batches {
		wrs := make([]verbs.SendWR, len(batch))
		for i, q := range batch {
			wrs[i] = q.wr
			if q.inline >= 0 {
				wrs[i].Flags |= verbs.SendInline
				wrs[i].Inline = data[:q.inline]
			}
			if ah != nil {
				wrs[i].UD = verbs.UDDest{AH: ah, QPN: q.wr.RKey & 0xffffff, QKey: uint32(q.wr.RemoteAddr)}
			}
		}
		wrs[len(wrs)-1].WRID = 1
		wrs[len(wrs)-1].Flags |= verbs.SendSignaled
		n, err := qp.PostSend(wrs)
		require.NoError(t, err)
		require.Len(t, wrs, n)
		for last := uint64(0); last != 1; {
			last = poll(t, cq, 1)[0].WRID
		}
	}
	return qp.Num()
}

// doorbells are the lines of a queue pair in the device's list.
func doorbells(t *testing.T, qpn uint32) (list []string) {
	t.Helper()
	file, err := os.Open(os.Getenv(insideEnv))
	require.NoError(t, err)
	defer file.Close()
	s := bufio.NewScanner(file)
	s.Buffer(nil, 1<<20)
	prefix := fmt.Sprintf("%d ", qpn)
	for s.Scan() {
		if line, ok := strings.CutPrefix(s.Text(), prefix); ok {
			list = append(list, line)
		}
	}
	require.NoError(t, s.Err())
	return list
}

func compare(t *testing.T, theirs, ours []string, batches int) {
	t.Helper()
	require.Len(t, theirs, batches, "doorbells of libmlx5")
	require.Len(t, ours, batches, "doorbells of ours")
	for i := range theirs {
		if theirs[i] != ours[i] {
			at := 0
			for at < min(len(theirs[i]), len(ours[i])) && theirs[i][at] == ours[i][at] {
				at++
			}
			from := max(0, at-200)
			t.Fatalf("doorbell %d of %d differs at %d:\nlibmlx5 …%.300s\nours    …%.300s", i, len(theirs), at, theirs[i][from:], ours[i][from:])
		}
	}
}
