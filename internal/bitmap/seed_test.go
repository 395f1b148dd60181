// SPDX-License-Identifier: Apache-2.0

package bitmap

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// newRand returns a random source whose seed is printed if the test fails, and
// can be given back in BITMAP_SEED.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("BITMAP_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("BITMAP_SEED: %v", err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with BITMAP_SEED=%d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}
