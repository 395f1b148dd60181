// SPDX-License-Identifier: Apache-2.0

package point

import (
	"encoding/binary"
	"fmt"
)

// The content of transfer i is a sequence of words that depends on all of seed, i
// and place, so that neither a byte of another transfer nor one of another place
// passes. Sizes are multiples of eight.

func word(seed, i, at uint64) uint64 {
	x := seed + i*0x9e3779b97f4a7c15 + at*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

func fill(b []byte, seed, i uint64) {
	for at := 0; at+8 <= len(b); at += 8 {
		binary.LittleEndian.PutUint64(b[at:], word(seed, i, uint64(at)))
	}
}

func check(b []byte, seed, i uint64) error {
	for at := 0; at+8 <= len(b); at += 8 {
		if binary.LittleEndian.Uint64(b[at:]) != word(seed, i, uint64(at)) {
			return fmt.Errorf("the content of transfer %d is wrong at byte %d", i, at)
		}
	}
	return nil
}
