// SPDX-License-Identifier: Apache-2.0

package schemetest_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
)

var update = flag.Bool("update", false, "write testdata/golden.txt anew")

const goldenFile = "testdata/golden.txt"

// Golden: every scheme decides the same in every run, on every architecture. One
// whose decisions change on purpose changes its line:
//
//	go test ./reliability/schemetest -run TestGolden -update
func TestGolden(t *testing.T) {
	const seeds = 4
	var got strings.Builder
	for _, s := range []struct {
		name string
		pool int
		make func() (scheme.Scheme, error)
	}{
		{"none", 0, func() (scheme.Scheme, error) { return none.New(), nil }},
		{"sr", 0, func() (scheme.Scheme, error) { return sr.New(sr.Config{}) }},
		{"sr-nack", 0, func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) }},
		{"ec-xor", 1000, func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8}) }},
		{"ec-mds", 40, func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) }},
		{"adaptive", 1000, func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) }},
	} {
		suite := schemetest.Suite{ParityPool: s.pool, Partial: s.name == "none", New: func() scheme.Scheme {
			made, err := s.make()
			require.NoError(t, err)
			return made
		}}
		fmt.Fprint(&got, s.name)
		for seed := range uint64(seeds) {
			fmt.Fprintf(&got, " %016x", suite.Digest(seed))
		}
		fmt.Fprintln(&got)
	}
	if *update {
		require.NoError(t, os.WriteFile(goldenFile, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "if a scheme was meant to change: -update")
}
