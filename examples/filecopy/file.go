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
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// stdio names stdin at the sender and stdout at the receiver.
const stdio = "-"

// maxName is the longest name of a file (NAME_MAX).
const maxName = 255

// hashFile is the SHA-256 of the first size bytes of f.
func hashFile(f io.ReaderAt, size int64) ([]byte, error) {
	h := sha256.New()
	n, err := io.CopyBuffer(h, io.NewSectionReader(f, 0, size), make([]byte, 1<<20))
	if err == nil && n != size {
		err = fmt.Errorf("the file has become shorter: %d bytes are left of %d", n, size)
	}
	return h.Sum(nil), err
}

// A file is the original, or what is to become the copy. That has no name meanwhile, so that nothing is left of it when
// the process is killed. Where the file system can't do that it has one beside the final one, which ends in .part. Only
// its owner may read it before it is complete.
type file struct {
	*os.File
	folder string
	final  string // "" until the sender has named it
	part   string // its name, "" while it has none
}

// openOriginal opens a regular file, or for stdio one that holds what stdin had to its end: the receiver wants to know
// how much comes.
func openOriginal(path string) (f *file, fi fs.FileInfo, err error) {
	if path == stdio {
		if f, err = newCopy(stdio); err == nil {
			_, err = io.Copy(f, os.Stdin)
		}
	} else {
		f = &file{}
		f.File, err = os.Open(path)
	}
	if err == nil {
		fi, err = f.Stat()
	}
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: give one, whose size is known", path)
	}
	return f, fi, err
}

// newCopy makes the file, which shows before any transfer that it can be made: the final one's name, or a folder,
// where the sender names it, or stdio.
func newCopy(out string) (*file, error) {
	f := &file{final: out, folder: filepath.Dir(out)}
	switch fi, err := os.Stat(out); {
	case out == stdio:
		f.folder = os.TempDir()
	case err == nil && fi.IsDir():
		f.final, f.folder = "", out
	case err == nil && !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: name the file to write, or a folder", out)
	}
	var err error
	f.File, err = os.OpenFile(f.folder, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		f.part = f.partName()
		f.File, err = os.OpenFile(f.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return f, err
}

// called gives the copy the sender's name for it, if it has no final one yet: a name in the folder, and none that
// hides, leads elsewhere, or is taken.
func (f *file) called(name string) error {
	unfit := func(r rune) bool {
		return r == filepath.Separator || r == unicode.ReplacementChar || !unicode.IsPrint(r)
	}
	final := filepath.Join(f.folder, name)
	switch _, err := os.Lstat(final); {
	case f.final != "":
		return nil
	case name == "":
		return errors.New("what is sent has no name: start the receiver with --out FILE")
	case len(name) > maxName || name[0] == '.' || strings.ContainsFunc(name, unfit):
		return fmt.Errorf("the name %.300q isn't one of a file that may be made: start the receiver with --out FILE", name)
	case err == nil:
		return fmt.Errorf("there is a file %q already: start the receiver with --out FILE to replace it", name)
	}
	f.final = final
	return nil
}

func (f *file) partName() string {
	return filepath.Join(f.folder, fmt.Sprintf("%s.%08x.part", filepath.Base(f.final), rand.Uint32()))
}

// deliver writes a copy to stdout, or gives it its final name, permissions and time of change, once its content is on
// the disk. A file that is replaced hands on its permissions; a new one gets those of the original that the umask allows.
func (f *file) deliver(mode fs.FileMode, changed time.Time) error {
	if f.final == stdio {
		_, err := io.Copy(os.Stdout, io.NewSectionReader(f, 0, 1<<62))
		return err
	}
	mode = mode.Perm() &^ umask()
	if fi, err := os.Stat(f.final); err == nil {
		mode = fi.Mode().Perm()
	}
	at := unix.NsecToTimeval(changed.UnixNano())
	if err := errors.Join(f.Chmod(mode), unix.Futimes(int(f.Fd()), []unix.Timeval{at, at}), f.Sync()); err != nil {
		return err
	}
	if f.part == "" {
		part := f.partName()
		if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, part, unix.AT_SYMLINK_FOLLOW); err != nil {
			return fmt.Errorf("name the copy %s: %w", part, err)
		}
		f.part = part
	}
	err := os.Rename(f.part, f.final)
	if err == nil {
		f.part = ""
	}
	return err
}

// discard closes the file, and removes it unless it has become the final one.
func (f *file) discard() {
	_ = f.Close()
	if f.part != "" {
		_ = os.Remove(f.part)
	}
}

// umask is what this process takes from the permissions of new files.
func umask() fs.FileMode {
	m := unix.Umask(0o077)
	unix.Umask(m)
	return fs.FileMode(m)
}
