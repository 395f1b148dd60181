// SPDX-License-Identifier: Apache-2.0

// Package watched has what tests read while something else still writes it: the output of a program, a log.
package watched

import (
	"bytes"
	"sync"
)

// A Buffer collects what is written and shows it at any time. Its zero value is empty and ready; any number of goroutines
// may use it.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // +checklocks:mu
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is what has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
