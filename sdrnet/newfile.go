// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// A NewFile is a FileTarget on the disk, for one file. That has no name until all of it is there, so that nothing incomplete is ever
// seen, and nothing is left of it when the process is killed. Where the file system can't do that (O_TMPFILE), or there is no /proc, which
// the name comes through, it is beside the final one meanwhile, under a name that ends in .part; elsewhere one that replaces another is so
// for a moment, when it is complete. Only its owner may read it before it is complete.
type NewFile struct {
	file     *os.File
	folder   string
	path     string // "" until the sender has named it
	part     string // its name meanwhile, "" while it has none
	kept     bool   // it has its final name
	replaces bool   // what has the final name already: the receiver chose it
}

// CreateFile makes a NewFile, which shows before any transfer that it can be made. path is its final name, which may be that of a file
// to be replaced, or a folder: there it gets the name that its sender gives, if that is valid and free. "" is neither. Close it in any case.
func CreateFile(path string) (*NewFile, error) {
	if path == "" {
		return nil, operr.New("create", `""`, "it is no path: name the file to write, or a folder")
	}
	f := &NewFile{path: path, folder: filepath.Dir(path), replaces: true}
	switch fi, err := os.Stat(path); {
	case err == nil && fi.IsDir():
		f.path, f.folder, f.replaces = "", path, false
	case err == nil && !fi.Mode().IsRegular():
		return nil, operr.New("create", path, "it is not a regular file: name the file to write, or a folder")
	case err == nil && isMount(path):
		return nil, operr.New("create", path, "%w: it is a mount point, which can't be replaced: name a file beside it, or a folder", unix.EBUSY)
	case err == nil && isKept(path):
		return nil, operr.New("create", path, "%w: it can't be replaced, as another user's file in a folder where each may remove only what is theirs (ls -ld), "+
			"or one that nothing changes (lsattr): name another file, or a folder", unix.EPERM)
	case err != nil && !errors.Is(err, fs.ErrNotExist): // such as a name that is too long, which Keep would be the first to find
		return nil, operr.Wrap("create", path, err)
	}
	if err := f.open(); err != nil {
		return nil, operr.Wrap("create", path, err)
	}
	return f, nil
}

// isMount reports whether something is mounted at path, such as a file that a container was given. Before Linux 5.8 it doesn't know.
func isMount(path string) bool {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &x)
	return err == nil && x.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// isKept reports whether the kernel lets no other file have the name of the one at path (may_delete), although its folder may be written to.
// rmdir asks that first, and then finds that a file is no folder.
func isKept(path string) bool { return errors.Is(unix.Rmdir(path), unix.EPERM) }

// open makes the file, without a name if it can get one later.
func (f *NewFile) open() (err error) {
	f.file, err = os.OpenFile(f.folder, os.O_RDWR|unix.O_TMPFILE, 0o600)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR):
		return f.openPart()
	case err != nil:
		return err
	}
	if _, err := os.Lstat(f.at()); err == nil {
		return nil
	}
	if err := f.file.Close(); err != nil {
		return err
	}
	return f.openPart() // there is no /proc, as in a chroot
}

// at is a path of the file before it has its final one.
func (f *NewFile) at() string { return cmp.Or(f.part, fmt.Sprintf("/proc/self/fd/%d", f.file.Fd())) }

// openPart makes the file under a name.
func (f *NewFile) openPart() (err error) {
	f.part = f.partName()
	f.file, err = os.OpenFile(f.part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return err
}

// partName is a name that nothing has. It begins with the final one, as far as a file system takes that much.
func (f *NewFile) partName() string {
	base, end := filepath.Base(f.path), fmt.Sprintf(".%.8s.part", rand.Text())
	return filepath.Join(f.folder, base[:min(len(base), maxName-len(end))]+end)
}

// Name is the path that the file gets; "" in a folder before Begin.
func (f *NewFile) Name() string { return f.path }

// WriteAt writes to the file, as io.WriterAt says.
func (f *NewFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.file.WriteAt(b, off)
	return n, f.named(err)
}

// ReadAt reads what was written, as io.ReaderAt says.
func (f *NewFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.file.ReadAt(b, off)
	return n, f.named(err)
}

// named has an error tell the path that the file gets. A file without a name was opened as its folder, which is no file of the user's,
// and whose disk isn't what the file is called; what was done by another name of it says that.
func (f *NewFile) named(err error) error {
	var e *fs.PathError
	if f.path == "" || !errors.As(err, &e) {
		return err
	}
	return &fs.PathError{Op: e.Op, Path: f.path, Err: e.Err}
}

// Begin gives the file its sender's name for it, if CreateFile was given a folder. It may be called again after a transfer that has failed, of
// which it leaves nothing, but not once a file was kept: the next one wants a NewFile of its own. It fails with unix.ENOSPC, EDQUOT or EFBIG
// when the disk hasn't room for info.Size bytes, which it reserves, as far as the file system can.
func (f *NewFile) Begin(info FileInfo) error {
	if f.kept {
		return f.used()
	}
	if err := f.file.Truncate(0); err != nil {
		return f.named(err)
	}
	if !f.replaces {
		if err := f.take(info); err != nil {
			return err
		}
	}
	return reserve(f.file, f.path, info.Size)
}

// take gives the file its sender's name.
func (f *NewFile) take(info FileInfo) error {
	path := filepath.Join(f.folder, info.Name)
	switch _, err := os.Lstat(path); {
	case info.Name == "":
		return operr.New("create", path, "what is sent has no name: %s", nameIt)
	case !info.ValidName():
		return operr.New("create", f.folder, "the name %.300q isn't one of a file that may be made: %s", info.Name, nameIt)
	case err == nil:
		return taken(path)
	}
	f.path = path
	return nil
}

// used says that a file was kept already: what is written would change that one, under its name.
func (f *NewFile) used() error {
	return operr.New("create", f.path, "%w: it was kept already: make a NewFile for each file", sdr.ErrArgument)
}

// nameIt is what to do when the sender's name doesn't do.
const nameIt = "name the file that the receiver is to write, and not only a folder"

// taken says that a sender's name is another file's.
func taken(path string) error {
	return &wrapped{operr.New("create", filepath.Dir(path), "there is a file %q already: %s", filepath.Base(path), nameIt), fs.ErrExist}
}

// Keep gives the file its permissions, its time of change, and, once it is on the disk, its name, which is on the disk then, too, as far as the
// process may read the folder. A file that is replaced hands on its permissions; a new one gets those of the original that the umask
// allows, or is for its owner alone where the sender names none (Mode 0). Where the file system gives files neither permissions nor times, or
// not those that are asked for, it goes without. In a folder it fails with fs.ErrExist when another file has got the name since Begin.
func (f *NewFile) Keep(info FileInfo) error {
	if f.kept {
		return f.used()
	}
	mode := cmp.Or(info.Mode.Perm(), 0o600) &^ umask()
	if fi, err := os.Stat(f.path); err == nil {
		mode = fi.Mode().Perm()
	}
	if err := cmp.Or(unlessRefused(f.file.Chmod(mode)), unlessRefused(os.Chtimes(f.at(), time.Time{}, info.ModTime)), f.file.Sync()); err != nil {
		return f.named(err)
	}
	if err := f.name(); err != nil {
		return err
	}
	f.kept = true
	return syncFolder(f.folder)
}

// unlessRefused is err, but for a file system that lets nobody choose, such as FAT mounted with another user's uid: a file that is whole
// isn't lost for its permissions, which only its owner has before, or for its time.
func unlessRefused(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// name gives the file its final name, by way of another where one has that already.
func (f *NewFile) name() error {
	if f.part == "" {
		nameless := f.at()
		err := link(nameless, f.path)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("name the file: %w", err)
		}
		if !f.replaces {
			return taken(f.path)
		}
		part := f.partName()
		if err := link(nameless, part); err != nil {
			return fmt.Errorf("name the file: %w", err)
		}
		f.part = part
	}
	err := f.rename()
	if err == nil {
		f.part = ""
	}
	return err
}

func link(nameless, path string) error {
	if err := unix.Linkat(unix.AT_FDCWD, nameless, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}

// syncFolder writes a folder's names to the disk. It can't where the folder may only be written, or the file system has no such call.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// rename gives the file its final name.
func (f *NewFile) rename() error {
	if f.replaces {
		return os.Rename(f.part, f.path)
	}
	switch err := unix.Renameat2(unix.AT_FDCWD, f.part, unix.AT_FDCWD, f.path, unix.RENAME_NOREPLACE); err {
	case nil:
		return nil
	case unix.EEXIST:
		return taken(f.path)
	case unix.EINVAL, unix.ENOSYS: // a file system that can't look and rename at once, such as NFS
		if _, err := os.Lstat(f.path); err == nil {
			return taken(f.path)
		}
		return os.Rename(f.part, f.path)
	default:
		return &os.LinkError{Op: "rename", Old: f.part, New: f.path, Err: err}
	}
}

// Close closes the file, and removes it unless it was kept. It is idempotent.
func (f *NewFile) Close() error {
	err := f.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	if f.part != "" {
		err = errors.Join(err, os.Remove(f.part))
	}
	return err
}

// umask is what the process takes from the permissions of new files. It is read from proc(5), because umask(2) sets it
// for all threads in order to return it.
func umask() fs.FileMode {
	status, err := os.ReadFile("/proc/self/status")
	_, text, _ := strings.Cut(string(status), "\nUmask:\t")
	text, _, _ = strings.Cut(text, "\n")
	mask, parseErr := strconv.ParseUint(text, 8, 32)
	if err != nil || parseErr != nil {
		return 0o077
	}
	return fs.FileMode(mask)
}
