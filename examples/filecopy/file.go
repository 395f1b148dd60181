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

// openSource opens a regular file, or for "-" one without a name that holds what stdin had to its end: the
// receiver wants to know how much comes.
func openSource(path string) (*os.File, fs.FileInfo, error) {
	var f *os.File
	var err error
	if path == stdio {
		if f, err = unnamed(os.TempDir()); err == nil {
			if _, err = io.Copy(f, os.Stdin); err != nil {
				f.Close()
			}
		}
	} else {
		f, err = os.Open(path)
	}
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
	folder string
	final  string // "" until the sender has named it
	part   string // its name, "" while it has none
}

// newTemporary makes the file, which shows before any transfer that it can be made: the final one's name, or a folder,
// where the sender names it, or stdio.
func newTemporary(out string) (*temporary, error) {
	t := &temporary{final: out, folder: filepath.Dir(out)}
	switch fi, err := os.Stat(out); {
	case out == stdio:
		t.folder = os.TempDir()
	case err == nil && fi.IsDir():
		t.final, t.folder = "", out
	case err == nil && !fi.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: name the file to write, or a folder", out)
	}
	var err error
	t.File, err = os.OpenFile(t.folder, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		t.part = t.partName()
		t.File, err = os.OpenFile(t.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return t, err
}

// unnamed makes a file that is gone when it is closed.
func unnamed(folder string) (*os.File, error) {
	f, err := os.CreateTemp(folder, "filecopy-*")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

// maxName is the longest name of a file (NAME_MAX).
const maxName = 255

// called gives the file the sender's name for it, if it has no final one yet: a name in the folder, and none that
// hides, leads elsewhere, or is taken.
func (t *temporary) called(name string) error {
	if t.final != "" {
		return nil
	}
	unfit := func(r rune) bool {
		return r == filepath.Separator || r == unicode.ReplacementChar || !unicode.IsPrint(r)
	}
	switch {
	case name == "":
		return errors.New("what is sent has no name: start the receiver with --out FILE")
	case len(name) > maxName || name[0] == '.' || strings.ContainsFunc(name, unfit):
		return fmt.Errorf("the name %.300q isn't one of a file that may be made: start the receiver with --out FILE", name)
	}
	final := filepath.Join(t.folder, name)
	if _, err := os.Lstat(final); err == nil {
		return fmt.Errorf("there is a file %q already: start the receiver with --out FILE to replace it", name)
	}
	t.final = final
	return nil
}

// deliver writes the file to stdout, or gives it its name.
func (t *temporary) deliver(o *offer) error {
	if t.final != stdio {
		return t.commit(o.Mode, o.Changed)
	}
	if _, err := t.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(os.Stdout, t)
	return err
}

func (t *temporary) partName() string {
	return filepath.Join(t.folder, fmt.Sprintf("%s.%08x.part", filepath.Base(t.final), rand.Uint32()))
}

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
