// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A temporary is the file that is to become the final one. It has no name meanwhile, so that nothing is
// left of it when the process is killed. Where the file system can't do that it has one beside the final
// one, which ends in .part. Only its owner may read it before it is complete.
type temporary struct {
	*os.File
	final string
	// part is its name, "" when it has none.
	part      string
	committed bool
}

// newTemporary makes the file, which shows before any transfer that it can be made.
func newTemporary(final string) (*temporary, error) {
	if fi, err := os.Stat(final); err == nil && !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: name the file to write", final)
	}
	t := &temporary{final: final}
	var err error
	t.File, err = os.OpenFile(filepath.Dir(final), os.O_RDWR|unix.O_TMPFILE, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		t.part = t.partName()
		t.File, err = os.OpenFile(t.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *temporary) partName() string { return fmt.Sprintf("%s.%08x.part", t.final, rand.Uint32()) }

// commit gives the file its final name, and permissions, once its content is on the disk. A file that
// is replaced hands on its permissions; a new one gets those of the original that the umask allows.
func (t *temporary) commit(original fs.FileMode) error {
	mode := original.Perm() &^ umask()
	if fi, err := os.Stat(t.final); err == nil {
		mode = fi.Mode().Perm()
	}
	if err := t.Chmod(mode); err != nil {
		return err
	}
	if err := t.Sync(); err != nil {
		return err
	}
	if t.part == "" {
		part := t.partName()
		if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", t.Fd()), unix.AT_FDCWD, part, unix.AT_SYMLINK_FOLLOW); err != nil {
			return fmt.Errorf("name the copy %s: %w", part, err)
		}
		t.part = part
	}
	if err := os.Rename(t.part, t.final); err != nil {
		return err
	}
	t.committed = true
	return t.Close()
}

// discard removes the file, unless it has become the final one.
func (t *temporary) discard() {
	if t.committed {
		return
	}
	_ = t.Close()
	if t.part != "" {
		_ = os.Remove(t.part)
	}
}

// umask is what this process takes from the permissions of new files.
func umask() fs.FileMode {
	m := unix.Umask(0o077)
	unix.Umask(m)
	return fs.FileMode(m)
}
