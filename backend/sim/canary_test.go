// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Writes go anywhere, on a link with every fault and while messages come and go, and yet
// only bytes of a message change that is exposed or being revoked.
func TestNothingElseIsWritten(t *testing.T) {
	for seed := range uint64(40) {
		cfg := everything()
		cfg.Seed = seed
		cfg.NoFullSequence = seed%2 == 1
		cfg.KeyPerMessage = seed%4 == 3
		attack(t, cfg, rand.New(rand.NewPCG(seed, 1)))
	}
}

func attack(t *testing.T, cfg Config, rnd *rand.Rand) {
	t.Helper()
	p := newPair(t, cfg)
	for i := range p.a.mem.Bytes() {
		p.a.mem.Bytes()[i] = 0xee
	}
	mem := p.b.mem.Bytes()
	const each = 16 * units.KiB // a message's part of the memory, half of it exposed
	open, rkeys, vas := [testSlots]bool{}, []uint32{0}, []uint64{0}
	for n := range uint64(200) {
		slot := n % testSlots
		if n >= testSlots {
			p.b.table.StartRevoke(n - testSlots)
			for !p.b.table.Revoked(n - testSlots) {
				p.net.Advance(p.net.Next())
				p.poll(p.a)
				p.poll(p.b)
			}
			open[slot] = false
			clear(mem[units.Bytes(slot)*each:][:each])
		}
		if rnd.IntN(3) > 0 {
			rkey, va, err := p.b.table.Expose(n, p.b.mem, backend.Range{Offset: units.Bytes(slot) * each, Length: each / 2})
			require.NoError(t, err)
			rkeys, vas, open[slot] = append(rkeys, rkey), append(vas, va), true
		}
		for range 4 {
			w := backend.Write{
				RKey: rkeys[rnd.IntN(len(rkeys))] + uint32(rnd.IntN(20)/19), VA: vas[rnd.IntN(len(vas))] + rnd.Uint64N(uint64(each)),
				LKey: p.a.mem.LKey(), Length: uint32(rnd.IntN(testMTU + 1)),
			}
			_, err := p.a.uc.PostWrites(p.net.Now(), []backend.Write{w})
			require.NoError(t, err)
		}
		p.net.Advance(p.net.Now().Add(units.Duration(rnd.IntN(20_000))))
		p.poll(p.a)
		p.poll(p.b)
		check(t, mem, open, each, cfg.Seed)
	}
	require.NotEmpty(t, p.b.imms(), "some writes should land, seed %d", cfg.Seed)
}

// check looks at everything outside the exposed halves.
func check(t *testing.T, mem []byte, open [testSlots]bool, each units.Bytes, seed uint64) {
	t.Helper()
	for slot := range open {
		part := mem[units.Bytes(slot)*each:][:each]
		if open[slot] {
			part = part[each/2:]
		}
		if !bytes.Equal(part, zeros[:len(part)]) {
			t.Fatalf("seed %d: the closed part of slot %d was written", seed, slot)
		}
	}
}

var zeros [testMax]byte
