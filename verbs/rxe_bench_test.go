// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// benchShape is the traffic of the comparison: one packet a message, as sdr sends.
const (
	benchSize  = 4096
	benchBatch = 32
	benchRuns  = 5
)

// BenchmarkUCWriteImm compares our sender with the same loop in C over libibverbs: same devices,
// same receiver (ucpeer sink), same batch, every request signalled; medians of five runs each, taken
// in turn. It reports messages per second of both and their ratio.
func BenchmarkUCWriteImm(b *testing.B) {
	const messages = 10000
	var ours, theirs []float64
	for range benchRuns {
		theirs = append(theirs, libibverbsRate(b, messages))
		ours = append(ours, ourRate(b, messages))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	b.Logf("messages/s of %d bytes in batches of %d: ours %.0f, libibverbs %.0f", benchSize, benchBatch, ours, theirs)
	mid := benchRuns / 2
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ours[mid], "ours-msg/s")
	b.ReportMetric(theirs[mid], "libibverbs-msg/s")
	b.ReportMetric(ours[mid]/theirs[mid], "ratio")
}

// sink starts the receiver on devB; release lets it connect to the sender.
func sink(b *testing.B) *peer {
	b.Helper()
	return launch(b, devB, "sink", 0, benchSize, benchBatch)
}

func awaitReady(b *testing.B, p *peer) {
	b.Helper()
	var ready string
	p.scan(b, &ready)
	require.Equal(b, "ready", ready)
}

func libibverbsRate(b *testing.B, messages int) float64 {
	b.Setenv("UCPEER_NO_FILL", "1")
	r := sink(b)
	defer r.kill()
	s := launch(b, devA, "send", messages, benchSize, benchBatch)
	defer s.kill()
	r.tellEnd(b, s.qpn, s.rkey, s.addr, s.gid)
	awaitReady(b, r)
	s.tellEnd(b, r.qpn, r.rkey, r.addr, r.gid)
	var ns int64
	s.scan(b, &ns)
	return float64(messages) / (float64(ns) / 1e9)
}

func ourRate(b *testing.B, messages int) float64 {
	r := sink(b)
	defer r.kill()
	a := newEnd(b, devA, endConfig{typ: verbs.UC, depth: 256, buffer: benchSize * benchBatch})
	defer a.ctx.Close()
	require.NoError(b, a.qp.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: r.gid}, PathMTU: verbs.MTU4096, RemoteQPN: r.qpn,
		LocalPSN: peerPSN, RemotePSN: peerPSN}))
	r.tell(b, a)
	awaitReady(b, r)
	wrs, wcs := make([]verbs.SendWR, benchBatch), make([]verbs.WC, 256)
	start := time.Now()
	for sent := 0; sent < messages; {
		n := min(benchBatch, messages-sent)
		for i := range n {
			wrs[i] = verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Imm: uint32(sent + i), Flags: verbs.SendSignaled,
				Local: a.mr.SGE(i*benchSize, benchSize), RemoteAddr: r.addr + uint64(i*benchSize), RKey: r.rkey}
		}
		k, err := a.qp.PostSend(wrs[:n])
		require.NoError(b, err)
		for done := 0; done < k; {
			got, err := a.scq.Poll(wcs)
			require.NoError(b, err)
			for _, wc := range wcs[:got] {
				if wc.Status != verbs.WCSuccess {
					b.Fatal(fmt.Sprint(wc.Status))
				}
			}
			done += got
		}
		sent += k
	}
	return float64(messages) / time.Since(start).Seconds()
}
