// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// openSource opens a regular file.
func openSource(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: give one, whose size is known", path)
	}
	if err != nil {
		f.Close()
	}
	return f, fi, err
}

// hashFile is the SHA-256 of the first size bytes of f.
func hashFile(f io.ReaderAt, size int64) ([]byte, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(h, io.NewSectionReader(f, 0, size), make([]byte, 1<<20))
	if err == nil && n != size {
		err = fmt.Errorf("the file has become shorter: %d bytes are left of %d", n, size)
	}
	return h.Sum(nil), err
}

// A temporary is the file that is to become the final one. It has no name meanwhile, so that nothing is
// left of it when the process is killed. Where the file system can't do that it has one beside the final
// one, which ends in .part. Only its owner may read it before it is complete.
type temporary struct {
	*os.File
	final, part string // part is its name, "" while it has none
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
	return t, err
}

func (t *temporary) partName() string { return fmt.Sprintf("%s.%08x.part", t.final, rand.Uint32()) }

// commit gives the file its final name, permissions and time of change, once its content is on the disk. A file
// that is replaced hands on its permissions; a new one gets those of the original that the umask allows.
func (t *temporary) commit(original fs.FileMode, changed time.Time) error {
	mode := original.Perm() &^ umask()
	if fi, err := os.Stat(t.final); err == nil {
		mode = fi.Mode().Perm()
	}
	at := unix.NsecToTimeval(changed.UnixNano())
	if err := errors.Join(t.Chmod(mode), unix.Futimes(int(t.Fd()), []unix.Timeval{at, at}), t.Sync()); err != nil {
		return err
	}
	if t.part == "" {
		part := t.partName()
		if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", t.Fd()), unix.AT_FDCWD, part, unix.AT_SYMLINK_FOLLOW); err != nil {
			return fmt.Errorf("name the copy %s: %w", part, err)
		}
		t.part = part
	}
	err := os.Rename(t.part, t.final)
	if err == nil {
		t.part = ""
	}
	return err
}

// discard closes the file, and removes it unless it has become the final one.
func (t *temporary) discard() {
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
