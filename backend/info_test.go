// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQPInfoRoundTrip(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1", "fe80::1"} {
		in := QPInfo{Addr: netip.MustParseAddr(a), Port: 4791, QPN: 0xabcdef, PSN: 7, MTU: 4096, Flags: FlagICRCZeroID}
		b := in.Append(nil)
		require.Len(t, b, QPInfoSize)
		out, err := ParseQPInfo(b)
		require.NoError(t, err)
		require.Equal(t, in, out)
	}
	_, err := ParseQPInfo(make([]byte, QPInfoSize-1))
	require.ErrorContains(t, err, "35 bytes")
	_, err = ParseQPInfo(QPInfo{QPN: 1 << 24}.Append(nil))
	require.ErrorContains(t, err, "24 bits")
}

func TestRootVA(t *testing.T) {
	cfg := TableConfig{Slots: 16, Generations: 4, MaxMessage: 1 << 30}
	require.Equal(t, uint64(65)<<30, RootVA(Caps{FullSequence: true}, cfg, 65))
	require.Equal(t, uint64(1)<<30, RootVA(Caps{}, cfg, 65))
	require.Equal(t, uint64(1)<<30, RootVA(Caps{FullSequence: true}, cfg, 1<<34+1), "arithmetic modulo 2^64")
}

func FuzzParseQPInfo(f *testing.F) {
	f.Add(QPInfo{Addr: netip.MustParseAddr("127.0.0.1"), QPN: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := ParseQPInfo(b)
		if err == nil && i.QPN >= 1<<24 {
			t.Fatalf("accepted QPN %#x", i.QPN)
		}
	})
}

func TestDropReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range NumDropReasons {
		require.NotEmpty(t, r.String())
		require.False(t, seen[r.String()], r)
		seen[r.String()] = true
	}
	require.Equal(t, "unknown", NumDropReasons.String())
}
