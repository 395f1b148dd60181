// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestLibMLX5SameSharedReceives posts the same random receives to a shared queue of libmlx5 and of ours: their memory and records are
// equal, links included. None has an empty piece: libmlx5 writes such a piece to a shared queue, though not to a queue pair's own, and
// ours leaves it out of both. libmlx5's queue is followed by as many places again, in which it keeps receives whose memory wasn't there
// when they were needed (on-demand paging).
func TestLibMLX5SameSharedReceives(t *testing.T) {
	oracle := buildOracle(t)
	seed := uint64(number(t, seedEnv, int(time.Now().UnixNano()&0xffff)))
	t.Logf("%s=%d", seedEnv, seed)
	for round := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, round))
		w := newWorkload(r, verbs.RC, 1)
		for i := range w.recvs {
			w.recvs[i].SG = slices.DeleteFunc(w.recvs[i].SG, func(s verbs.SGE) bool { return s.Length == 0 })
		}
		theirs, _ := w.run(t, oracle, verbs.RC, "srq")
		a, b := withoutRegisters(doorbells(t, theirs)), withoutRegisters(doorbells(t, w.postShared(t)))
		require.Len(t, a, 1)
		require.Len(t, b, 1)
		a[0] = a[0][:min(len(a[0]), len(b[0]))] // the queue is the last on the line
		compare(t, a, b, 1)
	}
}

// postShared posts the workload's receives to a shared queue, and its only send.
func (w *workload) postShared(t *testing.T) uint32 {
	t.Helper()
	ctx, err := verbs.Open(sink)
	require.NoError(t, err)
	defer func() { require.NoError(t, ctx.Close()) }()
	pd, err := ctx.AllocPD()
	require.NoError(t, err)
	cq, err := ctx.CreateCQ(1023, nil)
	require.NoError(t, err)
	srq, err := pd.CreateSRQ(verbs.SRQAttr{MaxWR: depth, MaxSGE: maxPieces})
	require.NoError(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SRQ: srq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxSendSGE: maxPieces, MaxInline: maxInline}})
	require.NoError(t, err)
	path := verbs.AHAttr{DGID: verbs.GIDFromAddr(netip.MustParseAddr("192.0.2.2")), Port: 1}
	require.NoError(t, qp.Connect(verbs.ConnectConfig{Path: path, PathMTU: verbs.MTU4096, RemoteQPN: 5}))
	n, err := srq.PostRecv(w.recvs)
	require.NoError(t, err)
	require.Len(t, w.recvs, n)
	q := w.batches[0][0]
	q.wr.Flags |= verbs.SendSignaled
	if q.inline >= 0 {
		q.wr.Flags |= verbs.SendInline
		q.wr.Inline = pattern(maxInline)[:q.inline]
	}
	n, err = qp.PostSend([]verbs.SendWR{q.wr})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	poll(t, cq, 1)
	return qp.Num()
}
