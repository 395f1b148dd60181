// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
)

// Where many transfers are under way, writing and checking every byte of each would be most of what is measured.
// There a slot of the sender's memory has one content for the whole run, and each transfer from it writes only
// a stamp into each page: the first word of the page as the transfer's own content would have it. The receiver
// checks the stamps of each transfer, and each byte of those that warm up and of the last one in each of its slots.

// stampEvery is how far stamps are apart.
const stampEvery = 4096

// stamp turns the content of transfer i-slots into that of transfer i, in a slot that one of slots is.
func stamp(b []byte, seed, i uint64) {
	state := firstWord(seed, i)
	for at := 0; at < len(b); at += stampEvery {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], word(state+uint64(at/8)*golden))
		copy(b[at:], w[:])
	}
}

// checkStamps compares the stamps of transfer i.
func checkStamps(b []byte, seed, i uint64) error {
	state := firstWord(seed, i)
	for at := 0; at < len(b); at += stampEvery {
		var w, got [8]byte
		binary.LittleEndian.PutUint64(w[:], word(state+uint64(at/8)*golden))
		if n := copy(got[:], b[at:]); string(got[:n]) != string(w[:n]) {
			return &contentError{i, at}
		}
	}
	return nil
}

// checkStamped compares all of transfer i of a sender with so many slots.
func checkStamped(b []byte, seed, i, slots uint64) error {
	if err := checkStamps(b, seed, i); err != nil {
		return err
	}
	for at := 0; at < len(b); at += stampEvery {
		rest := b[at:min(at+stampEvery, len(b))]
		if len(rest) <= 8 {
			continue
		}
		if wrong := firstWrong(rest[8:], at+8, seed, i%slots); wrong >= 0 {
			return &contentError{i, at + 8 + wrong}
		}
	}
	return nil
}

// A shortTransfer is one that has another length than agreed.
type shortTransfer struct {
	transfer  uint64
	has, want int64
}

func (e *shortTransfer) Error() string {
	return fmt.Sprintf("transfer %d has %d bytes, not %d", e.transfer, e.has, e.want)
}
