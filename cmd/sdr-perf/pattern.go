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

// firstWrong is the offset in b of the first byte that isn't the transfer's content from offset at on,
// a multiple of 8, or -1 if there is none.
func firstWrong(b []byte, at int, seed, transfer uint64) int {
	state := firstWord(seed, transfer) + uint64(at/8)*golden
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
	at       int
}

func (e *contentError) Error() string {
	return fmt.Sprintf("the content of transfer %d is wrong from byte %d on", e.transfer, e.at)
}

// check compares the content of a whole transfer.
func check(b []byte, seed, transfer uint64) error { return checkAt(b, 0, seed, transfer) }

// checkAt compares the content from offset at on, a multiple of 8.
func checkAt(b []byte, at int, seed, transfer uint64) error {
	if i := firstWrong(b, at, seed, transfer); i >= 0 {
		return &contentError{transfer, at + i}
	}
	return nil
}

// isClear says whether b is as clear made it.
func isClear(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
