// SPDX-License-Identifier: Apache-2.0

package conntest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFoundSeeds runs what only a thousand seeds have found.
func TestFoundSeeds(t *testing.T) {
	for _, c := range []struct {
		scheme, scenario string
		seed             uint64
	}{
		// The peer left between two messages of a transfer: nobody asked it for a sign of life.
		{"sr", "an end closes", 296},
		{"ec-mds", "a peer restarts", 387},
		// The first frame after the blackout brought the mark of a packet before it: a round trip of 10 s.
		{"sr-nack", "blackout of 10 s", 13},
		{"adaptive", "blackout of 10 s", 13},
		// Open parity held the slot that the last data message was to take.
		{"adaptive", "transfers span slots", 217},
		// The receiver had completed a parity message that was then to be encoded.
		{"ec-xor", "transfers span slots", 109},
	} {
		require.NoError(t, suite(t, c.scheme).One(c.scenario, c.seed), "%s", c.scheme)
	}
}
