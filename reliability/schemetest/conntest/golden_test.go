// SPDX-License-Identifier: Apache-2.0

//go:build !race

package conntest_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/golden.txt anew")

const goldenFile = "testdata/golden.txt"

// Golden: the whole stack sends the same packets at the same time in every run, on
// every architecture. What changes them on purpose changes the lines:
//
//	go test ./reliability/schemetest/conntest -run TestGolden -update
func TestGolden(t *testing.T) {
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		sum, err := suite(t, name).Digest(1)
		require.NoError(t, err)
		fmt.Fprintf(&got, "%s %016x\n", name, sum)
	}
	if *update {
		require.NoError(t, os.WriteFile(goldenFile, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "if the packets were meant to change: -update")
}
