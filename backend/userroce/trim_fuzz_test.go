// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// header makes a header-only packet from fuzz input: a right one, cut or sent back, to which the input is added from a
// position on. The ICRC of one that is sent back is right unless the mode says not to.
func (f *fuzzTarget) header(t testing.TB, in []byte) (b []byte, tos uint8) {
	if len(in) < 4 {
		return in, tagHO
	}
	mode, at, n := in[0], int(in[1]), int(in[2])*5%fuzzMTU+1
	m := f.messages[int(mode>>2&7)%len(f.messages)]
	p := f.validWrite(f.rkey, m.seq*uint64(testMax), n)
	b = encode(t, p, n)
	if mode&1 != 0 {
		b = b[:roce.ReturnedSize]
		roce.BTH(b).SetECN(false, true)
	} else {
		b = b[:min(len(b), roce.TrimmedSize+int(in[3]))]
	}
	if mode&0x20 != 0 {
		b = f.named(b[:roce.TrimmedSize], int(in[3])%roce.MostTrimmed, m.seq*uint64(testMax))
		if mode&1 != 0 {
			b = append(b, 0, 0, 0, 0)
		}
	}
	for i := 0; i < len(in)-4 && at+i < len(b); i++ {
		b[at+i] ^= in[4+i]
	}
	if mode&1 != 0 && mode&0x80 == 0 {
		f.r.flows.current.Seed(len(b)).Seal(b)
	}
	if tos = tagHO; mode&2 != 0 {
		tos = mode
	}
	return b, tos
}

// named adds n names to a header-only packet, of writes in a message at va and beyond it.
func (f *fuzzTarget) named(b []byte, n int, va uint64) []byte {
	b = append(bytes.Clone(b), make([]byte, n*roce.NameSize)...)
	roce.BTH(b).SetMore(uint8(n))
	for i := range n {
		roce.PutName(b, i, va+uint64(i)*256, uint32(i))
	}
	return b
}

// feedHeader gives b to the responder. What it may do at most: report headers that came back, or send others back.
func (f *fuzzTarget) feedHeader(t testing.TB, b []byte, tos uint8) {
	before := f.d.Stats()
	whole := bytes.Clone(b)
	copy(f.r.batch.buf, b)
	var c backend.Completion
	f.r.responder.tos = tos
	got := f.r.responder.handle(0, len(b), &c)
	completed, names := map[bool]int{true: 1}[got], 1
	for ; f.r.responder.left > 0; completed++ {
		if !f.r.responder.handle(0, len(b), &c) {
			t.Fatalf("%d names left: %x", f.r.responder.left, b)
		}
	}
	f.r.responder.tos = 0
	f.r.responder.publish()
	after := f.d.Stats()
	if got && c.Kind == backend.KindWrite {
		// The input made a whole packet of it. What that may write is for the other fuzz target to judge.
		if !f.r.flows.current.Seed(len(whole)).Verify(whole) {
			t.Fatalf("completed: %x", b)
		}
		copy(f.mem, f.canary)
		return
	}
	if w, err := roce.ParseTrimmed(whole); err == nil && (got || after.Trim.Seen != before.Trim.Seen) {
		names += int(w.More)
	}
	moved := after.Trim.Seen - before.Trim.Seen + after.Trim.Reported - before.Trim.Reported
	for i := range after.Drops {
		if r := backend.DropReason(i); r != backend.DropQueueFull { // a packet back that found no room
			moved += after.Drops[i] - before.Drops[i]
		}
	}
	if after.Trim.Seen == before.Trim.Seen && !got && moved > 1 { // all that it names is bad
		w, err := roce.ParseTrimmed(whole)
		if err != nil {
			t.Fatalf("counted %d times: %x", moved, b)
		}
		names += int(w.More)
	}
	switch {
	case moved != uint64(names):
		t.Fatalf("counted %d times, not %d: %x", moved, names, b)
	case got && (c.Kind != backend.KindTrimmed || completed != names || !f.r.flows.current.Seed(len(whole)).Verify(whole)):
		t.Fatalf("completed as %+v: %x", c, b)
	case after.Trim.Seen != before.Trim.Seen && (len(whole) < roce.TrimmedSize || tos&tagMask != tagHO):
		t.Fatalf("sent back: %x", b)
	case after.PacketsSent > before.PacketsSent+1:
		t.Fatalf("answered more than once: %x", b)
	case !bytes.Equal(f.mem, f.canary):
		t.Fatalf("memory changed: %x", b)
	}
}

func newTrimTarget(t testing.TB) *fuzzTarget {
	f := newFuzzTarget(t, withTrim)
	f.reset(t)
	return f
}

// FuzzTrimmed feeds header-only packets, right but for a few bits, and of any length.
func FuzzTrimmed(f *testing.F) {
	target := newTrimTarget(f)
	for _, in := range [][]byte{{0, 0, 9, 0}, {1, 0, 9, 0}, {0x81, 0, 9, 0}, {4, 0, 9, 255}, {2, 0, 9, 0}, {0, 4, 9, 0, 1}, {0, 12, 9, 1, 0, 0, 1}, {0x20, 0, 9, 3}, {0x21, 0, 9, 63}, {0xa1, 0, 9, 63}, {0x20, 4, 9, 63, 1}} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		b, tos := target.header(t, in)
		target.feedHeader(t, b, tos)
	})
}

// TestTrimTemplates: the fuzz target's headers do what they should when nothing is mutated, or it would prove nothing.
func TestTrimTemplates(t *testing.T) {
	f := newTrimTarget(t)
	for i, in := range [][]byte{{0, 0, 9, 0}, {4, 0, 100, 7}, {1, 0, 9, 0}} {
		b, tos := f.header(t, in)
		f.feedHeader(t, b, tos)
		s := f.d.Stats().Trim
		require.EqualValues(t, i+1, s.SentBack+s.Reported)
	}
}

// TestManyForgedTrimmed: 200 000 header-only packets with a few bits wrong, from a seed. BenchmarkForgedTrimmed takes as many
// as one likes.
func TestManyForgedTrimmed(t *testing.T) {
	const seed, count = 1, 200_000
	t.Log("seed", seed)
	manyForged(t, newTrimTarget(t), seed, count)
}

// BenchmarkForgedTrimmed is what one forged header-only packet costs the receiver, those that are answered among them:
// -benchtime 5000000x.
func BenchmarkForgedTrimmed(b *testing.B) {
	f := newTrimTarget(b)
	b.ResetTimer()
	manyForged(b, f, 1, b.N)
	s := f.d.Stats()
	b.ReportMetric(float64(s.Trim.Seen)/float64(b.N), "answered/op")
}

func manyForged(t testing.TB, f *fuzzTarget, seed uint64, count int) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	in := make([]byte, 8)
	for range count {
		binary.BigEndian.PutUint64(in, rnd.Uint64())
		in[0] &^= 2
		in[1] %= roce.ReturnedSize
		b, tos := f.header(t, in[:4+rnd.IntN(5)])
		f.feedHeader(t, b, tos)
	}
	s := f.d.Stats()
	if count > 1000 {
		require.NotZero(t, s.Trim.Seen)
		require.NotZero(t, s.Trim.Reported)
	}
	require.LessOrEqual(t, s.PacketsSent, s.Trim.Seen)
}
