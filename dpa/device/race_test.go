// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// shapes are threads, packets and packets per chunk of messages that threads share. Chunks lie within words,
// across them, and are several words long.
var shapes = []struct{ threads, packets, perChunk int }{
	{2, 128, 64}, {4, 200, 16}, {4, 256, 128}, {3, 192, 48}, {8, 512, 256}, {5, 101, 100},
}

// race runs rounds messages of which each thread gets its share of every word, and says what is wrong at the end.
func race(t *testing.T, program string, threads, rounds, packets, perChunk int) error {
	t.Helper()
	out, err := emulated(t, nil, program, "race", fmt.Sprint(threads), fmt.Sprint(rounds), fmt.Sprint(packets), fmt.Sprint(perChunk)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	n, chunks := rounds*packets, rounds*((packets+perChunk-1)/perChunk)
	want := fmt.Sprintf("packets %d duplicates 0 chunks %d counted %d lost 0 twice 0\n", n, chunks, chunks)
	if got := string(out); got != want {
		return fmt.Errorf("%d threads, %d packets, chunks of %d: %swant %s", threads, packets, perChunk, got, want)
	}
	return nil
}

// TestThreadsCompleteChunks: threads that complete a chunk together set its bit, once, and tell the host.
func TestThreadsCompleteChunks(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	for _, s := range shapes {
		require.NoError(t, race(t, program, s.threads, 300, s.packets, s.perChunk))
	}
}
