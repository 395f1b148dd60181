// SPDX-License-Identifier: Apache-2.0

//go:build !race

package roce

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSolveEveryID(t *testing.T) {
	rng := newRand(t)
	flow := testFlow4()
	for _, n := range []int{MinPacket, 20, 36, 44, 292, 1060, 2084, 4128, MaxPacket} {
		b := make([]byte, n)
		fillRandom(rng, b)
		zero := flow.Seed(n).Sum(b[:n-4])
		for id := range 1 << 16 {
			icrc := flow.SeedID(n, uint16(id)).Sum(b[:n-4])
			got, ok := SolveIPv4ID(n, zero^icrc)
			if !ok || int(got) != id {
				t.Fatalf("%d bytes, identification %#x: got %#x, %v", n, id, got, ok)
			}
		}
	}
}

// The check that is left after solving is one of 16 bits: of random differences 1 in 65536 has a
// solution, at every length. The bounds are five standard deviations.
func TestSolveAcceptsOneIn65536(t *testing.T) {
	rng := newRand(t)
	const trials, mean = 1 << 22, 64
	for _, n := range []int{36, MaxPacket} {
		accepted := 0
		for range trials {
			if _, ok := SolveIPv4ID(n, rng.Uint32()); ok {
				accepted++
			}
		}
		require.InDelta(t, mean, accepted, 5*8, "%d bytes", n)
	}
}

func TestVerifyAnyID(t *testing.T) {
	rng := newRand(t)
	ip := randomIP(rng, false, 292)
	flow, _, b := split(t, ip)
	for _, id := range []uint16{0, 1, 0x8000, 0xffff} {
		flow.SeedID(len(b), id).Seal(b)
		got, ok := flow.VerifyAnyID(b)
		require.True(t, ok)
		require.Equal(t, id, got)
	}

	accepted := 0
	const trials = 1 << 19 // 8 expected; more than 28 has a chance of 1e-8
	for range trials {
		fillRandom(rng, b[BTHSize:])
		if _, ok := flow.VerifyAnyID(b); ok {
			accepted++
		}
	}
	require.LessOrEqual(t, accepted, 28)

	six := mustFlow("[fe80::1]:1", "[fe80::2]:4791")
	six.Seed(len(b)).Seal(b)
	_, ok := six.VerifyAnyID(b)
	require.True(t, ok)
	flow.SeedID(len(b), 7).Seal(b)
	_, ok = six.VerifyAnyID(b)
	require.False(t, ok, "IPv6 has no identification to solve for")
	icrc := func(seed Seed) uint32 { seed.Seal(b); return binary.LittleEndian.Uint32(b[len(b)-ICRCSize:]) }
	forged := icrc(six.Seed(len(b))) ^ icrc(flow.SeedID(len(b), 0)) ^ icrc(flow.SeedID(len(b), 7))
	binary.LittleEndian.PutUint32(b[len(b)-ICRCSize:], forged)
	_, ok = six.VerifyAnyID(b)
	require.False(t, ok, "what an identification would explain on IPv4")
}

func TestSolveRefusesLengths(t *testing.T) {
	for _, n := range []int{-4, 0, 4, 12, 17, 18, 19, MaxPacket + 1, MaxPacket + 4, 1 << 30} {
		_, ok := SolveIPv4ID(n, 0)
		require.False(t, ok, n)
	}
	id, ok := SolveIPv4ID(MinPacket, 0)
	require.True(t, ok)
	require.Zero(t, id)
}

func TestCRCAlgebra(t *testing.T) {
	rng := newRand(t)
	for range 1000 {
		r := rng.Uint32()
		require.Equal(t, r, crcUnbyte(crcByte(r)))
		require.Equal(t, r, crcMul(crcOne, r))
		require.Equal(t, crcByte(r), crcMul(crcByte(crcOne), r))
		require.Equal(t, crcUnbyte(r), crcMul(crcUnbyte(crcOne), r))
		a, b := rng.Uint32(), rng.Uint32()
		require.Equal(t, crcMul(a, b), crcMul(b, a))
		require.Equal(t, crcMul(a, r)^crcMul(b, r), crcMul(a^b, r))
	}
}

func TestBTHMask(t *testing.T) {
	var zero [BTHSize]byte
	for c := range 256 {
		b := zero
		b[bthECN] = byte(c)
		require.Equal(t, testFlow4().Seed(16).Sum(zero[:]), testFlow4().Seed(16).Sum(b[:]))
	}
}
