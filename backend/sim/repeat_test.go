// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// everything is a link with every fault.
func everything() Config {
	l := Link{
		Rate: 9 * units.Gbit, Queue: 24 * units.KiB, MarkAbove: 16 * units.KiB, Delay: 50 * units.Microsecond,
		ChannelDelay: []units.Duration{0, 3000, 70_000}, Jitter: 2 * units.Microsecond, Loss: Loss{Drop: 0.03, Burst: 3},
		Reorder: 0.1, ReorderDelay: 40 * units.Microsecond, Duplicate: 0.05, Corrupt: 0.02,
	}
	back := l
	back.Loss = Loss{Drop: 0.2}
	return Config{
		Rate: 10 * units.Gbit, Link: l, Back: &back, ControlLoss: &Loss{Drop: 0.3}, Seed: 77, HeaderBytes: 60,
		RecvBurst: 40_000, RevokeTime: 5 * units.Microsecond,
	}
}

// trace runs a fixed workload, in both directions, on a network and returns a digest of
// every completion with its time, and of the counters.
func trace(t *testing.T, cfg Config, sizeOnly bool) uint64 {
	t.Helper()
	p := newPair(t, cfg)
	if sizeOnly {
		for _, e := range []*side{p.a, p.b} {
			var err error
			require.NoError(t, e.mem.Close())
			e.mem, err = e.dev.RegisterSize(testMax, backend.AccessRemoteWrite)
			require.NoError(t, err)
			require.Nil(t, e.mem.Bytes())
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2)) // of the workload: the same each time
	sum := fnv.New64a()
	record := func(v ...uint64) {
		for _, v := range v {
			var b [8]byte
			for i := range b {
				b[i] = byte(v >> (8 * i))
			}
			sum.Write(b[:])
		}
	}
	keys := map[*side]uint32{}
	vas := map[*side]uint64{}
	for _, e := range []*side{p.a, p.b} {
		keys[e], vas[e] = e.expose(t, 0)
	}
	for round := range 400 {
		for i, e := range []*side{p.a, p.b} {
			other := []*side{p.b, p.a}[i]
			if round == 200 {
				other.table.StartRevoke(0) // late packets from now on
			}
			w := backend.Write{
				WRID: uint64(round), VA: vas[other] + uint64(rnd.IntN(1000)), RKey: keys[other], LKey: e.mem.LKey(),
				Length: uint32(rnd.IntN(4097)), Imm: uint32(round), Signaled: round%3 == 0,
			}
			_, err := e.uc.PostWrites(p.net.Now(), []backend.Write{w, w})
			require.NoError(t, err)
			p.send(e, "datagram"[:rnd.IntN(8)])
		}
		p.net.Advance(p.net.Now().Add(units.Duration(rnd.IntN(6_000))))
		for _, e := range []*side{p.a, p.b} {
			before := len(e.got)
			p.poll(e)
			for _, c := range e.got[before:] {
				if c.Kind == backend.KindDatagram {
					c.WRID = 0 // the device's own
				}
				record(uint64(p.net.Now()), c.WRID, uint64(c.Cookie), uint64(c.Imm), uint64(c.Len), uint64(c.Kind))
			}
		}
	}
	for _, e := range []*side{p.a, p.b} {
		s := e.dev.Stats()
		record(s.PacketsSent, s.PacketsReceived, s.BytesSent, s.BytesReceived, s.Duplicated, e.dev.Marked())
		record(s.Drops[:]...)
		for _, r := range []backend.DropReason{backend.DropEmulatedLoss, backend.DropEmulatedQueue, backend.DropICRC, backend.DropLate} {
			require.NotZero(t, s.Drops[r], "the run should see %v", r)
		}
		require.NotZero(t, e.dev.Marked())
	}
	return sum.Sum64()
}

// Same seed, same run: over runs, over content or none, and, by the golden
// value, over architectures and versions.
func TestSameSeedSameRun(t *testing.T) {
	first := trace(t, everything(), false)
	require.Equal(t, first, trace(t, everything(), false))
	require.Equal(t, first, trace(t, everything(), true), "sizes only")
	require.Equal(t, uint64(0xb5950851ec2e34e2), first)
	other := everything()
	other.Seed++
	require.NotEqual(t, first, trace(t, other, false))
}

func TestNeighbouringSeedsShareNoLink(t *testing.T) {
	// Losses of A→B under one seed are not those of B→A under another.
	lost := func(seed uint64, d Direction) (s string) {
		p := newPair(t, Config{Link: Link{Loss: Loss{Drop: 0.5}}, Seed: seed})
		e, to := p.a, p.b
		if d == BtoA {
			e, to = p.b, p.a
		}
		for range 64 {
			n := len(to.frames)
			p.send(e, "x")
			p.run()
			s += string(rune('0' + len(to.frames) - n))
		}
		return s
	}
	seen := map[string]bool{}
	for seed := range uint64(10) {
		for _, d := range []Direction{AtoB, BtoA} {
			s := lost(seed, d)
			require.False(t, seen[s])
			seen[s] = true
		}
	}
}
