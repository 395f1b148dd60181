// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// withoutRegisters drops what a page without BlueFlame doesn't have from a list of doorbells: the last two fields.
func withoutRegisters(list []string) []string {
	short := make([]string, len(list))
	for i, line := range list {
		for range 2 {
			line = line[:strings.LastIndexByte(line, ' ')]
		}
		short[i] = line
	}
	return short
}

// compareBlueFlame posts a workload of TestLibMLX5SameBytes once more, by BlueFlame, as libmlx5 did.
func compareBlueFlame(t *testing.T, w *workload, typ verbs.QPType, blocks int, theirs uint32) {
	t.Helper()
	ours := doorbells(t, w.post(t, typ, blocks, true))
	compare(t, doorbells(t, theirs), ours, len(w.batches))
	burnt := map[int]int{}
	for _, line := range ours {
		n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1:])
		require.NoError(t, err)
		burnt[n]++
	}
	assert.Zero(t, burnt[-1], "other bytes in a register than in the queue")
	assert.NotZero(t, burnt[64], "requests of one block: %v", burnt)
	assert.NotZero(t, burnt[128], "of two: %v", burnt)
}

// TestBlueFlame moves messages by requests that go into the device, alone, in batches that don't, around the queue several times.
func TestBlueFlame(t *testing.T) {
	a, b := pair(t, config{Type: verbs.UC, BlueFlame: true, Depth: 8})
	n := 0
	for round := range 100 {
		wrs := make([]verbs.SendWR, 1+round%3)
		for i := range wrs {
			wrs[i] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendInline | verbs.SendSignaled, Inline: pattern(1 + (round*5+i)%120)}
			receive(t, b, verbs.RecvWR{WRID: uint64(n + i), Local: b.MR.SGE(128*i, 128)})
		}
		posted, err := a.QP.PostSend(wrs)
		require.NoError(t, err)
		require.Len(t, wrs, posted)
		poll(t, a.SCQ, len(wrs))
		for i, wc := range poll(t, b.RCQ, len(wrs)) {
			require.Equal(t, verbs.WC{WRID: uint64(n + i), Opcode: verbs.WCRecv, ByteLen: uint32(len(wrs[i].Inline)), QPN: b.QP.Num(), SrcQP: a.QP.Num()}, wc)
			require.Equal(t, wrs[i].Inline, b.Buf[128*i:128*i+len(wrs[i].Inline)])
		}
		n += len(wrs)
	}
}

// pagesMapped is how many pages of devA are mapped.
func pagesMapped(t *testing.T) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "memfd:"+devA) {
			var from, to int
			_, err := fmt.Sscanf(line, "%x-%x", &from, &to)
			require.NoError(t, err)
			n += (to - from) / fakeverbs.PageSize
		}
	}
	return n
}

// TestBlueFlamePagesAreGivenBack: each queue pair has a page of its own, and more of them come and go than the device has; when it has none left,
// they share one.
func TestBlueFlamePagesAreGivenBack(t *testing.T) {
	e := newEnd(t, devA, config{Type: verbs.UC})
	attr := verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.RCQ, BlueFlame: true, Cap: verbs.QPCap{MaxSendWR: 1}}
	const atOnce, pages = 200, 1 << 10
	before := pagesMapped(t)
	for range pages/atOnce + 1 {
		var qps []*verbs.QP
		for range atOnce {
			qp, err := e.PD.CreateQP(attr)
			require.NoError(t, err)
			qps = append(qps, qp)
		}
		require.Equal(t, before+atOnce, pagesMapped(t))
		for _, qp := range qps {
			require.NoError(t, qp.Close())
		}
		require.Equal(t, before, pagesMapped(t))
	}
	// Where the device has no more, a queue pair does without.
	for range pages + 10 {
		_, err := e.PD.CreateQP(attr)
		require.NoError(t, err)
	}
	require.Less(t, pagesMapped(t), before+pages)
}
