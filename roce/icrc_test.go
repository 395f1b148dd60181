// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func testFlow4() Flow { return mustFlow("10.0.17.1:49152", "10.0.18.1:4791") }

func mustFlow(src, dst string) Flow {
	f, err := NewFlow(netip.MustParseAddrPort(src), netip.MustParseAddrPort(dst))
	if err != nil {
		panic(err)
	}
	return f
}

// newRand returns a generator with the seed of ROCE_TEST_SEED, or 1, and a failing test prints it.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(1)
	if s := os.Getenv("ROCE_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 0, 64)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ROCE_TEST_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

func fillRandom(rng *rand.Rand, b []byte) {
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
}

// slowICRC is the definition of the ICRC: build the IP packet, mask it, hash it. ip is the whole packet
// with the ICRC.
func slowICRC(ip []byte) uint32 {
	m := append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ip[:len(ip)-4]...)
	p := m[8:]
	var udp []byte
	if p[0]>>4 == 4 {
		p[1], p[8], p[10], p[11] = 0xff, 0xff, 0xff, 0xff
		udp = p[20:]
	} else {
		p[0], p[1], p[2], p[3], p[7] = 0x6f, 0xff, 0xff, 0xff, 0xff
		udp = p[40:]
	}
	udp[6], udp[7] = 0xff, 0xff
	udp[8+4] = 0xff
	return crc32.ChecksumIEEE(m)
}

// randomIP returns an IP packet whose UDP payload is n random bytes, and every field that the network
// may change random too.
func randomIP(rng *rand.Rand, ipv6 bool, n int) []byte {
	size := 20
	if ipv6 {
		size = 40
	}
	b := make([]byte, size+8+n)
	fillRandom(rng, b)
	if ipv6 {
		b[0] = 0x60 | b[0]&0x0f
		binary.BigEndian.PutUint16(b[4:], uint16(8+n))
		b[6] = 17
	} else {
		b[0] = 0x45
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		b[6], b[7], b[9] = 0x40, 0, 17
	}
	binary.BigEndian.PutUint16(b[size+2:], UDPPort)
	binary.BigEndian.PutUint16(b[size+4:], uint16(8+n))
	return b
}

func TestICRCEqualsDefinition(t *testing.T) {
	rng := newRand(t)
	for _, ipv6 := range []bool{false, true} {
		for n := MinPacket; n <= MaxPacket; n += 4 {
			ip := randomIP(rng, ipv6, n)
			flow, id, b := split(t, ip)
			want := slowICRC(ip)
			s := flow.SeedID(n, id)
			require.Equal(t, want, s.Sum(b[:n-4]), "IPv6 %v, %d bytes", ipv6, n)

			// In two pieces, with the pad left to Sum2.
			pad := rng.IntN(min(4, n-4-BTHSize+1))
			clear(b[n-4-pad:])
			want = slowICRC(ip)
			cut := BTHSize + rng.IntN(n-4-pad-BTHSize+1)
			require.Equal(t, want, s.Sum2(b[:cut], b[cut:n-4-pad]), "IPv6 %v, %d bytes, pad %d, cut %d", ipv6, n, pad, cut)

			require.Equal(t, s.Sum(b[:n-4]) == binary.LittleEndian.Uint32(b[n-4:]), s.Verify(b))
			s.Seal(b)
			require.True(t, s.Verify(b))
			b[rng.IntN(4)] ^= 1 << rng.IntN(8)
			require.False(t, s.Verify(b))
		}
	}
}

// rxe starts its CRC with this constant, "the result of computing a CRC with a seed of 0xffffffff and 8
// bytes of 0xff representing a masked LRH" (Linux, drivers/infiniband/sw/rxe/rxe_icrc.c).
func TestLRHPrefix(t *testing.T) {
	b := make([]byte, 8)
	fillOnes(b)
	require.Equal(t, uint32(0xdebb20e3), ^crc32.ChecksumIEEE(b))
}

func TestICRCMasks(t *testing.T) {
	rng := newRand(t)
	for _, ipv6 := range []bool{false, true} {
		ip := randomIP(rng, ipv6, 64)
		flow, id, b := split(t, ip)
		s := flow.SeedID(len(b), id)
		s.Seal(b)
		for bit := range len(b) * 8 {
			b[bit/8] ^= 1 << (bit % 8)
			// The byte with FECN, BECN and reserved bits may change on the way; nothing else.
			require.Equal(t, bit/8 == 4, s.Verify(b), "IPv6 %v, bit %d", ipv6, bit)
			b[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestVerifyShort(t *testing.T) {
	b := make([]byte, MinPacket)
	for n := range MinPacket {
		require.False(t, testFlow4().Seed(n).Verify(b[:n]))
		_, ok := testFlow4().VerifyAnyID(b[:n])
		require.False(t, ok)
	}
	testFlow4().SeedID(MinPacket, 7).Seal(b)
	id, ok := testFlow4().VerifyAnyID(b)
	require.True(t, ok)
	require.EqualValues(t, 7, id)
	require.Panics(t, func() { testFlow4().Seed(MinPacket).Sum(b[:BTHSize-1]) })
	require.Panics(t, func() { testFlow4().Seed(MinPacket).SumFetch(b[:BTHSize-1], b) })
}

func TestNewFlow(t *testing.T) {
	ap := netip.MustParseAddrPort
	mapped, err := NewFlow(ap("[::ffff:10.0.17.1]:49152"), ap("10.0.18.1:4791"))
	require.NoError(t, err)
	require.Equal(t, testFlow4(), mapped, "mapped addresses are IPv4 on the wire")
	zoned, err := NewFlow(ap("[fe80::1%eth0]:1"), ap("[fe80::2%eth0]:4791"))
	require.NoError(t, err)
	require.Equal(t, mustFlow("[fe80::1]:1", "[fe80::2]:4791"), zoned)
	require.True(t, zoned.IPv6())
	for _, a := range [][2]netip.AddrPort{
		{ap("10.0.0.1:1"), ap("[::1]:2")}, {ap("[::1]:1"), ap("10.0.0.1:2")}, {ap("10.0.0.1:1"), {}}, {{}, {}},
	} {
		_, err := NewFlow(a[0], a[1])
		require.ErrorIs(t, err, ErrFlow)
	}
	// Every part of the addresses counts.
	seen := map[Seed]bool{}
	for _, a := range []string{"10.0.17.1:49152", "10.0.17.1:49153", "11.0.17.1:49152", "10.0.17.2:49152"} {
		seen[mustFlow(a, "10.0.18.1:4791").Seed(36)] = true
		seen[mustFlow("10.0.18.1:4791", a).Seed(36)] = true
	}
	require.Len(t, seen, 8)
}

func TestSeal(t *testing.T) {
	b := make([]byte, 40)
	require.Panics(t, func() { testFlow4().Seed(15).Seal(b[:15]) })
	for _, n := range []int{MinPacket, 36, 40} {
		s := testFlow4().Seed(n)
		s.Seal(b[:n])
		require.Equal(t, s.Sum(b[:n-4]), binary.LittleEndian.Uint32(b[n-4:]), fmt.Sprint(n))
	}
}
