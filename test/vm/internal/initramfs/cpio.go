// SPDX-License-Identifier: Apache-2.0

// Package initramfs writes the guest's file tree as the "newc" cpio archive that the kernel
// unpacks as its first root file system (Documentation/driver-api/early-userspace/buffer-format).
// The kernel accepts several archives one after another, so each run appends its own to a base.
package initramfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// File type bits of a cpio mode, as in stat(2).
const (
	typeDir     = 0o040000
	typeRegular = 0o100000
	typeSymlink = 0o120000
	typeChar    = 0o020000
)

// Writer appends entries to one archive. Parent directories are made on the way. The first error
// sticks and Close returns it, so callers may add a whole tree before they look.
type Writer struct {
	w    io.Writer
	arch string
	off  int64
	ino  int
	seen map[string]bool
	err  error
}

// NewWriter starts an archive on w, for a VM of the architecture, as Go calls it. The caller must Close it.
func NewWriter(w io.Writer, arch string) *Writer {
	return &Writer{w: w, arch: arch, seen: map[string]bool{}}
}

// Has tells whether an entry of that absolute path has been written.
func (a *Writer) Has(name string) bool { return a.seen[clean(name)] }

// Dir adds a directory and its parents.
func (a *Writer) Dir(name string) {
	name = clean(name)
	if name == "" || a.seen[name] {
		return
	}
	a.Dir(path.Dir(name))
	a.entry(name, typeDir|0o755, 0, 0, nil, 0)
}

// File adds a regular file with these bytes. Adding a path twice keeps the first.
func (a *Writer) File(name string, mode fs.FileMode, data []byte) {
	a.regular(name, mode, strings.NewReader(string(data)), int64(len(data)))
}

// CopyFile adds the host's file src, following symbolic links, with its permission bits.
func (a *Writer) CopyFile(name, src string) {
	if a.err != nil || a.Has(name) {
		return
	}
	f, err := os.Open(src)
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		a.err = err
		return
	}
	a.regular(name, st.Mode().Perm(), f, st.Size())
}

// Symlink adds a symbolic link.
func (a *Writer) Symlink(name, target string) {
	name = clean(name)
	if a.seen[name] {
		return
	}
	a.Dir(path.Dir(name))
	a.entry(name, typeSymlink|0o777, 0, 0, strings.NewReader(target), int64(len(target)))
}

// CharDevice adds a character device node.
func (a *Writer) CharDevice(name string, major, minor int) {
	name = clean(name)
	if a.seen[name] {
		return
	}
	a.Dir(path.Dir(name))
	a.entry(name, typeChar|0o600, major, minor, nil, 0)
}

// Tree adds the host's directory dir as name. keep, when not nil, decides by the path relative to
// dir; what it refuses is left out with everything below it.
func (a *Writer) Tree(name, dir string, keep func(rel string, d fs.DirEntry) bool) {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		if keep != nil && !keep(rel, d) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		a.treeEntry(path.Join(name, filepath.ToSlash(rel)), p, d)
		return a.err
	})
	if a.err == nil {
		a.err = err
	}
}

func (a *Writer) treeEntry(name, src string, d fs.DirEntry) {
	switch {
	case d.IsDir():
		a.Dir(name)
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(src)
		if err != nil {
			a.err = err
			return
		}
		a.Symlink(name, target)
	case d.Type().IsRegular():
		a.CopyFile(name, src)
	}
}

// Close writes the trailer and returns the first error of the archive.
func (a *Writer) Close() error {
	a.entry("TRAILER!!!", 0, 0, 0, nil, 0)
	return a.err
}

func (a *Writer) regular(name string, mode fs.FileMode, r io.Reader, size int64) {
	name = clean(name)
	if a.seen[name] {
		return
	}
	a.Dir(path.Dir(name))
	a.entry(name, typeRegular|int(mode.Perm()), 0, 0, r, size)
}

// entry writes one header, its name and its data, each padded to four bytes.
func (a *Writer) entry(name string, mode, major, minor int, data io.Reader, size int64) {
	if a.err != nil {
		return
	}
	if size >= 1<<32 {
		a.err = fmt.Errorf("initramfs: %s is %d bytes, a cpio entry holds less than 4 GiB", name, size)
		return
	}
	a.seen[name] = true
	a.ino++
	a.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.ino, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0))
	a.write([]byte(name + "\x00"))
	a.pad()
	if data == nil || a.err != nil {
		return
	}
	n, err := io.Copy(a.w, io.LimitReader(data, size))
	a.off += n
	if err == nil && n != size {
		err = fmt.Errorf("initramfs: %s shrank while it was read", name)
	}
	if err != nil {
		a.err = err
		return
	}
	a.pad()
}

func (a *Writer) pad() { a.write(make([]byte, -a.off&3)) }

func (a *Writer) write(b []byte) {
	if a.err != nil {
		return
	}
	n, err := a.w.Write(b)
	a.off += int64(n)
	a.err = err
}

// clean makes a path relative to the root, as the kernel's unpacker wants it; the root is "".
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}
