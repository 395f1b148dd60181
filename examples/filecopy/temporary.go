// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
)

// A temporary is a file beside the one that it is to become.
type temporary struct {
	*os.File
	final     string
	committed bool
}

// newTemporary makes the file, which shows before any transfer that it can be made.
func newTemporary(final string) (*temporary, error) {
	if fi, err := os.Stat(final); err == nil && !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: name the file to write", final)
	}
	name := fmt.Sprintf("%s.%08x.part", final, rand.Uint32())
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, err
	}
	return &temporary{File: f, final: final}, nil
}

// commit gives the file its final name once its content is on the disk.
func (t *temporary) commit() error {
	if err := t.Sync(); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), t.final); err != nil {
		return err
	}
	t.committed = true
	return nil
}

// discard removes the file, unless it has become the final one.
func (t *temporary) discard() {
	if !t.committed {
		_ = t.Close()
		_ = os.Remove(t.Name())
	}
}
