// SPDX-License-Identifier: Apache-2.0

package erasure

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/reedsolomon"
	"github.com/stretchr/testify/require"
)

// eachImplementation runs f with and without the kernels.
func eachImplementation(t *testing.T, f func(t *testing.T)) {
	t.Run("slices", func(t *testing.T) {
		useKernels = false
		defer func() { useKernels = true }()
		f(t)
	})
	t.Run("kernels", func(t *testing.T) {
		if !haveKernels {
			t.Skip("this CPU has no AVX-512 with GFNI")
		}
		f(t)
	})
}

// A group is units between canaries, at odd addresses.
type group struct {
	memory, before []byte
	units          [][]byte
}

const canary = 65

func newGroup(rng *rand.Rand, n, unit int) *group {
	g := &group{memory: make([]byte, canary+n*(unit+canary)), units: make([][]byte, n)}
	for i := range g.memory {
		g.memory[i] = byte(rng.Uint32())
	}
	for i := range g.units {
		from := canary + i*(unit+canary)
		g.units[i] = g.memory[from : from+unit : from+unit]
	}
	g.before = bytes.Clone(g.memory)
	return g
}

// requireOnly checks that nothing but the given units has changed.
func (g *group) requireOnly(t *testing.T, changed ...[]byte) {
	t.Helper()
	for _, u := range changed {
		// Undo: what is left must be what was there.
		for i := range g.memory {
			if len(u) > 0 && &g.memory[i] == &u[0] {
				copy(u, g.before[i:])
				break
			}
		}
	}
	require.True(t, bytes.Equal(g.before, g.memory), "a byte outside the results has changed")
}

// slowEncode is the definition of the codes.
func slowEncode(code Code, data [][]byte, row, unit int) []byte {
	p := make([]byte, unit)
	for j, d := range data {
		v := byte(0)
		if !code.xor {
			v = cauchy(row, j)
		} else if j%code.m == row {
			v = 1
		}
		for i := range d {
			p[i] ^= slowMul(v, d[i])
		}
	}
	return p
}

func TestEncodeIsTheDefinition(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const seed = 1
		rng := rand.New(rand.NewPCG(seed, 0))
		var c Coder
		for i := range 300 {
			k, unit := 1+rng.IntN(40), 1+rng.IntN(700)
			code, rows := MDS(), rng.Perm(256-k)
			if i%2 == 0 {
				code = XOR(1 + rng.IntN(12))
				rows = rng.Perm(code.m)
			}
			rows = rows[:1+rng.IntN(min(len(rows), 20))]
			g := newGroup(rng, k+len(rows), unit)
			data, parity := g.units[:k], g.units[k:]
			data[k-1] = data[k-1][:rng.IntN(unit+1)]
			require.NoError(t, c.Encode(code, data, rows, parity))
			for r, row := range rows {
				require.Equal(t, slowEncode(code, data, row, unit), parity[r], "seed %d, round %d, %v, k %d, row %d, unit %d", seed, i, code, k, row, unit)
			}
			g.requireOnly(t, parity...)
		}
	})
}

// recoverable is the definition of what the codes can do.
func recoverable(code Code, missing, rows []int) bool {
	if !code.xor {
		return len(missing) <= len(rows)
	}
	for i, p := range missing {
		has := false
		for _, r := range rows {
			has = has || r == p%code.m
		}
		for _, q := range missing[:i] {
			has = has && q%code.m != p%code.m
		}
		if !has {
			return false
		}
	}
	return true
}

// decodeOnce encodes random data, takes the missing units away and decodes.
func decodeOnce(t *testing.T, rng *rand.Rand, c *Coder, code Code, k, unit int, rows, missing []int) {
	t.Helper()
	g := newGroup(rng, k+len(rows)+len(missing), unit)
	data, parity, out := g.units[:k], g.units[k:k+len(rows)], g.units[k+len(rows):]
	short := data[k-1][:rng.IntN(unit+1)]
	if rng.IntN(2) == 0 {
		clear(data[k-1][len(short):])
		data[k-1] = short
	}
	require.NoError(t, c.Encode(code, data, rows, parity))
	copy(g.before, g.memory)

	want := make([][]byte, len(missing))
	have := append([][]byte(nil), data...)
	for i, p := range missing {
		want[i] = make([]byte, unit)
		copy(want[i], data[p])
		have[p] = nil
	}
	err := c.Decode(code, have, rows, parity, missing, out)
	if !recoverable(code, missing, rows) {
		require.ErrorIs(t, err, errTooMany)
		g.requireOnly(t, out...)
		return
	}
	require.NoError(t, err)
	for i := range missing {
		require.Equal(t, want[i], out[i], "%v, k %d, rows %v, missing %v, position %d", code, k, rows, missing, missing[i])
	}
	g.requireOnly(t, out...)
}

// TestAnyKUnitsRecover tries every way to lose units of small groups.
func TestAnyKUnitsRecover(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 0))
		var c Coder
		for k := 1; k <= 5; k++ {
			for lost := range 1 << (k + 4) {
				var rows, missing []int
				for i := range k + 4 {
					switch {
					case i < k && lost>>i&1 != 0:
						missing = append(missing, i)
					case i >= k && lost>>i&1 == 0:
						rows = append(rows, i-k)
					}
				}
				decodeOnce(t, rng, &c, MDS(), k, 9, rows, missing)
				decodeOnce(t, rng, &c, XOR(4), k, 9, rows, missing)
			}
		}
	})
}

func TestDecodeRandomGroups(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const seed = 3
		rng := rand.New(rand.NewPCG(seed, 0))
		var c Coder
		for range 300 {
			k := 1 + rng.IntN(254)
			if rng.IntN(4) > 0 {
				k = 1 + rng.IntN(40)
			}
			code := MDS()
			if rng.IntN(3) == 0 {
				code = XOR(1 + rng.IntN(min(k, 255-k)))
			}
			rows := rng.Perm(code.rows(k))
			rows = rows[:1+rng.IntN(min(len(rows), 33))]
			missing := rng.Perm(k)[:rng.IntN(min(k, len(rows))+1)]
			decodeOnce(t, rng, &c, code, k, 1+rng.IntN(600), rows, missing)
		}
	})
}

// TestAgainstReedSolomon checks the field, the code and decoding against another
// implementation with the same matrix.
func TestAgainstReedSolomon(t *testing.T) {
	eachImplementation(t, func(t *testing.T) {
		const k, m, unit = 32, 8, 1000
		matrix := make([][]byte, m)
		rows := make([]int, m)
		for i := range matrix {
			rows[i] = i
			for j := range k {
				matrix[i] = append(matrix[i], cauchy(i, j))
			}
		}
		other, err := reedsolomon.New(k, m, reedsolomon.WithCustomMatrix(matrix))
		require.NoError(t, err)

		rng := rand.New(rand.NewPCG(4, 0))
		g := newGroup(rng, k+m, unit)
		var c Coder
		require.NoError(t, c.Encode(MDS(), g.units[:k], rows, g.units[k:]))
		ok, err := other.Verify(g.units)
		require.NoError(t, err)
		require.True(t, ok)

		missing := rng.Perm(k)[:m]
		out := newGroup(rng, m, unit)
		have := append([][]byte(nil), g.units...)
		for _, p := range missing {
			have[p] = nil
		}
		require.NoError(t, c.Decode(MDS(), have[:k], rows, have[k:], missing, out.units))
		require.NoError(t, other.Reconstruct(have))
		for i, p := range missing {
			require.Equal(t, have[p], out.units[i])
		}
	})
}

func TestMistakesAreRefused(t *testing.T) {
	unit := func(n int) []byte { return make([]byte, n) }
	one := [][]byte{unit(8)}
	var c Coder
	for name, err := range map[string]error{
		"no data":        c.Encode(MDS(), nil, []int{0}, one),
		"no rows":        c.Encode(XOR(0), one, []int{0}, one),
		"negative rows":  c.Encode(XOR(-1), one, []int{0}, one),
		"too many rows":  c.Encode(XOR(255), one, []int{0}, one),
		"too many units": c.Encode(MDS(), make([][]byte, 256), []int{0}, one),
	} {
		require.ErrorContains(t, err, "both must be at least 1 and their sum at most 255", name)
	}
	require.ErrorIs(t, c.Encode(MDS(), one, []int{0}, nil), errLengths)
	require.ErrorIs(t, c.Encode(MDS(), [][]byte{unit(9)}, []int{0}, one), errLengths)
	require.ErrorIs(t, c.Encode(MDS(), one, []int{0, 1}, [][]byte{unit(8), unit(7)}), errLengths)
	require.ErrorIs(t, c.Decode(MDS(), one, []int{0}, one, []int{0}, [][]byte{unit(7)}), errLengths)
	require.ErrorIs(t, c.Decode(MDS(), one, []int{0}, one, nil, one), errLengths)
	require.ErrorIs(t, c.Encode(MDS(), one, []int{255}, one), errOverlap)
	require.ErrorIs(t, c.Encode(MDS(), one, []int{-1}, one), errOverlap)
	require.ErrorIs(t, c.Encode(XOR(2), one, []int{2}, one), errOverlap)
	require.ErrorIs(t, c.Encode(MDS(), one, []int{1, 1}, [][]byte{unit(8), unit(8)}), errOverlap)
	require.ErrorIs(t, c.Decode(MDS(), one, []int{0}, one, []int{1}, one), errOverlap)
	require.NoError(t, c.Decode(MDS(), one, nil, nil, nil, nil), "nothing to do")
}

// TestMissingIsNotLookedAt: of a unit that is missing not even the length matters.
func TestMissingIsNotLookedAt(t *testing.T) {
	for _, code := range []Code{MDS(), XOR(1)} {
		var c Coder
		data := [][]byte{{1, 2, 3}, {4, 5, 6}}
		parity := [][]byte{make([]byte, 3)}
		require.NoError(t, c.Encode(code, data, []int{0}, parity))
		out := [][]byte{make([]byte, 3)}
		require.NoError(t, c.Decode(code, [][]byte{data[0], make([]byte, 9)}, []int{0}, parity, []int{1}, out))
		require.Equal(t, data[1:], out)
		require.ErrorIs(t, c.Decode(code, [][]byte{make([]byte, 9), nil}, []int{0}, parity, []int{1}, out), errLengths)
	}
}

// FuzzDecode takes group, losses and content from the input.
func FuzzDecode(f *testing.F) {
	f.Add(uint64(1), uint8(32), uint8(8), uint16(4096), false)
	f.Add(uint64(2), uint8(32), uint8(8), uint16(65), true)
	f.Add(uint64(3), uint8(127), uint8(100), uint16(300), false)
	f.Add(uint64(4), uint8(0), uint8(0), uint16(0), true)
	f.Fuzz(func(t *testing.T, seed uint64, k, m uint8, unit uint16, xor bool) {
		// The work is bounded too: instrumented for fuzzing, on a busy machine, more takes
		// longer than the fuzzer waits.
		if k == 0 || m == 0 || int(k)+int(m) > 255 || unit == 0 || int(k)*int(unit) > 1<<20 || int(k)*int(m)*int(unit) > 1<<23 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		code := MDS()
		if xor {
			code = XOR(int(m))
		}
		rows := rng.Perm(code.rows(int(k)))
		rows = rows[:min(len(rows), int(m))]
		missing := rng.Perm(int(k))[:min(int(k), rng.IntN(int(m)+1))]
		var c Coder
		decodeOnce(t, rng, &c, code, int(k), int(unit), rows, missing)
	})
}
