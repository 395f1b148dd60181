// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A shape is threads that share a message, and its packets and packets per chunk. Chunks lie within words, across
// them, and are several words long; the length is known or becomes known meanwhile.
type shape struct {
	threads, packets, perChunk, late int
}

var shapes = []shape{
	{2, 128, 64, 0}, {4, 200, 16, 0}, {4, 256, 128, 0}, {3, 192, 48, 0}, {8, 512, 256, 0}, {5, 101, 100, 0}, {16, 1000, 1, 0},
	{2, 128, 64, 1}, {4, 200, 16, 1}, {3, 130, 48, 1}, {8, 300, 256, 1}, {4, 65, 1, 1},
}

// race runs rounds messages of which each thread gets its share of every word, and says what is wrong at the end.
func race(t *testing.T, program string, s shape, rounds int) error {
	t.Helper()
	out, err := emulated(t, nil, program, "race", fmt.Sprint(s.threads), fmt.Sprint(rounds), fmt.Sprint(s.packets), fmt.Sprint(s.perChunk), fmt.Sprint(s.late)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	n, chunks := rounds*s.packets, rounds*((s.packets+s.perChunk-1)/s.perChunk)
	want := fmt.Sprintf("packets %d duplicates 0 chunks %d lost 0\n", n, chunks)
	if got := string(out); got != want {
		return fmt.Errorf("%+v: %swant %s", s, got, want)
	}
	return nil
}

// TestThreadsCompleteChunks: threads that complete a chunk together set its bit and report it to the host.
func TestThreadsCompleteChunks(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	for _, s := range shapes {
		require.NoError(t, race(t, program, s, 300))
	}
}
