// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// A fanIn is what a receive worker has: several QPs whose receives complete on one CQ. They belong
// to the QPs, or to an SRQ.
type fanIn struct {
	from, to []*verbs.QP
	a, b     *end
	wcs      []verbs.WC
	wrs      []verbs.RecvWR
	refill   []int // per QP, when there is no SRQ
	index    map[uint32]int
}

// fanInQPs is the default of channels times generations.
const fanInQPs = 16

// fanInBatch is how many messages one post takes.
const fanInBatch = 32

func newFanIn(tb testing.TB, srq bool) *fanIn {
	const depth = fanInQPs * fanInBatch
	c := endConfig{Type: verbs.UC, Depth: depth}
	f := &fanIn{a: newEnd(tb, devA, c), index: map[uint32]int{}, wcs: make([]verbs.WC, fanInBatch), wrs: make([]verbs.RecvWR, depth)}
	c.SRQ = srq
	f.b = newEnd(tb, devB, c)
	f.refill = make([]int, fanInQPs)
	for i := range fanInQPs {
		a, b := *f.a, *f.b
		if i > 0 {
			a.QP, b.QP = another(tb, f.a), another(tb, f.b)
		}
		connect(tb, &a, &b, verbs.MTU4096)
		f.from, f.to = append(f.from, a.QP), append(f.to, b.QP)
		f.index[b.QP.Num()] = i
		f.refill[i] = 2 * fanInBatch
	}
	f.post(tb, depth)
	return f
}

// another makes a QP beside that of an end.
func another(tb testing.TB, e *end) *verbs.QP {
	init := verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.RCQ, SRQ: e.SRQ,
		Cap: verbs.QPCap{MaxSendWR: fanInBatch, MaxSendSGE: 1}}
	if e.SRQ == nil {
		init.Cap.MaxRecvWR = 2 * fanInBatch
	}
	qp, err := e.PD.CreateQP(init)
	require.NoError(tb, err)
	return qp
}

// post gives n receives back: to the SRQ, or to the QPs that have used them.
func (f *fanIn) post(tb testing.TB, n int) {
	if f.b.SRQ != nil {
		_, err := f.b.SRQ.PostRecv(f.wrs[:n])
		require.NoError(tb, err)
		return
	}
	for i, k := range f.refill {
		if k > 0 {
			_, err := f.to[i].PostRecv(f.wrs[:k])
			require.NoError(tb, err)
			f.refill[i] = 0
		}
	}
}

// move sends a batch on each QP in turn, and takes and gives back the receives. It returns the
// time that the receiver spent.
func (f *fanIn) move(tb testing.TB, messages int) (receiving time.Duration) {
	batch := make([]verbs.SendWR, fanInBatch)
	for i := range batch {
		batch[i] = writeImm(f.a, f.b, 0, benchSize, uint32(i))
	}
	batch[fanInBatch-1].Flags = verbs.SendSignaled
	for sent := 0; sent < messages; sent += fanInBatch {
		_, err := f.from[sent/fanInBatch%fanInQPs].PostSend(batch)
		require.NoError(tb, err)
		poll(tb, f.a.SCQ, 1)
		for left, end := fanInBatch, time.Now().Add(waitLimit); left > 0; {
			begun := time.Now()
			n, err := f.b.RCQ.Poll(f.wcs)
			require.NoError(tb, err)
			if n == 0 {
				require.True(tb, begun.Before(end), "a message is missing")
				continue
			}
			if f.b.SRQ == nil {
				for _, wc := range f.wcs[:n] {
					f.refill[f.index[wc.QPN]]++
				}
			}
			f.post(tb, n)
			receiving += time.Since(begun)
			left -= n
		}
	}
	return receiving
}

// BenchmarkSharedReceives is why backend/uc has no SRQ on rxe: it measures what a worker spends on
// completions and receives of 16 QPs with receive queues of their own, and with one that they share.
func BenchmarkSharedReceives(b *testing.B) {
	own, shared := newFanIn(b, false), newFanIn(b, true)
	var times [2][]float64
	var wall [2][]float64
	for range benchRuns {
		for i, f := range []*fanIn{own, shared} {
			begun := time.Now()
			times[i] = append(times[i], float64(f.move(b, benchMessages).Nanoseconds())/benchMessages)
			wall[i] = append(wall[i], benchMessages/time.Since(begun).Seconds())
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"own", "shared"} {
		b.Logf("%-6s receives: %.0f ns/message of the receiver, %.0f messages/s of both ends", name, times[i], wall[i])
		b.ReportMetric(median(times[i]), name+"-ns/msg")
		b.ReportMetric(median(wall[i]), name+"-msg/s")
	}
	b.ReportMetric(median(wall[1])/median(wall[0]), "shared-to-own")
}
