// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Content differs with the seed, the transfer and the place in all its words, so that neither what an
// earlier transfer left in the buffer nor a packet at a wrong offset can pass for it.
const (
	golden  = 0x9e3779b97f4a7c15 // 2^64/φ, odd: the words of a transfer are distinct
	scatter = 0xff51afd7ed558ccd // of MurmurHash3's finalizer
)

// firstWord is where the words of a transfer start to count from.
func firstWord(seed, transfer uint64) uint64 {
	h := (seed ^ bits.RotateLeft64(transfer*golden, 32)) * scatter
	return h ^ h>>29
}

func word(state uint64) uint64 {
	state ^= state >> 32
	return state * scatter
}

// fill writes the content of a transfer.
func fill(b []byte, seed, transfer uint64) {
	state := firstWord(seed, transfer)
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, word(state))
		state += golden
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], word(state))
	copy(b, last[:])
}

// firstWrong is the offset of the first byte that isn't the transfer's content, -1 if there is none.
func firstWrong(b []byte, seed, transfer uint64) int {
	state := firstWord(seed, transfer)
	rest := b
	for ; len(rest) >= 8; rest = rest[8:] {
		if d := binary.LittleEndian.Uint64(rest) ^ word(state); d != 0 {
			return len(b) - len(rest) + bits.TrailingZeros64(d)/8
		}
		state += golden
	}
	for i := range rest {
		if rest[i] != byte(word(state)>>(8*i)) {
			return len(b) - len(rest) + i
		}
	}
	return -1
}

// A contentError says where content is wrong.
type contentError struct {
	transfer uint64
	at, of   int
}

func (e *contentError) Error() string {
	return fmt.Sprintf("the content of transfer %d is wrong from byte %d of %d on", e.transfer, e.at, e.of)
}

func check(b []byte, seed, transfer uint64) error {
	if at := firstWrong(b, seed, transfer); at >= 0 {
		return &contentError{transfer, at, len(b)}
	}
	return nil
}
