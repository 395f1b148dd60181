// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// names are those in a folder.
func names(t *testing.T, folder string) (all []string) {
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestNewFile: with and without a file system that can make a file without a name, nothing has the final one before Keep, and
// nothing is left without it.
func TestNewFile(t *testing.T) {
	info := FileInfo{Name: "its own", Mode: 0o773, ModTime: time.Unix(1_000_000_000, 123_456_789)}
	for _, c := range []struct {
		name, path string // "" for the folder
		part       bool
		want       string
	}{
		{"named", "copy", false, "copy"},
		{"in a folder", "", false, "its own"},
		{"named, without O_TMPFILE", "copy", true, "copy"},
		{"in a folder, without O_TMPFILE", "", true, "its own"},
	} {
		t.Run(c.name, func(t *testing.T) {
			create := func(dir string) *NewFile {
				f, err := CreateFile(filepath.Join(dir, c.path))
				require.NoError(t, err)
				require.Empty(t, names(t, dir))
				if c.part {
					require.NoError(t, f.file.Close())
					require.NoError(t, f.openPart())
					require.Len(t, names(t, dir), 1)
				}
				fi, err := f.file.Stat()
				require.NoError(t, err)
				require.Equal(t, fs.FileMode(0o600), fi.Mode().Perm())
				return f
			}
			dir := t.TempDir()
			f := create(dir)
			require.NoError(t, f.Begin(info))
			require.Equal(t, filepath.Join(dir, c.want), f.Name())
			_, err := f.WriteAt([]byte("content"), 0)
			require.NoError(t, err)
			require.NoFileExists(t, f.Name())
			require.NoError(t, f.Keep(info))
			require.NoError(t, f.Close())
			require.NoError(t, f.Close())
			require.Equal(t, []string{c.want}, names(t, dir))
			fi, err := os.Stat(f.Name())
			require.NoError(t, err)
			require.Equal(t, 0o773&^umask(), fi.Mode())
			require.True(t, info.ModTime.Equal(fi.ModTime()), "%v", fi.ModTime())

			dir = t.TempDir()
			f = create(dir)
			require.NoError(t, f.Begin(info))
			require.NoError(t, f.Close())
			require.Empty(t, names(t, dir))
		})
	}
}

// TestNewFileRefuses: a folder takes no file that hides, leads elsewhere, has no name or replaces another; where the receiver says the
// name, the sender's is of no account.
func TestNewFileRefuses(t *testing.T) {
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	require.NoError(t, os.WriteFile(taken, nil, 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "link")))
	f, err := CreateFile(dir)
	require.NoError(t, err)
	defer f.Close()
	require.ErrorIs(t, f.Begin(FileInfo{Name: "taken"}), fs.ErrExist)
	require.ErrorIs(t, f.Begin(FileInfo{Name: "link"}), fs.ErrExist)
	require.ErrorContains(t, f.Begin(FileInfo{Name: "../x"}), "isn't one of a file that may be made")
	require.ErrorContains(t, f.Begin(FileInfo{}), "has no name")
	require.Empty(t, f.Name())

	named, err := CreateFile(taken)
	require.NoError(t, err)
	defer named.Close()
	require.NoError(t, named.Begin(FileInfo{Name: "../x"}))
	require.NoError(t, named.Keep(FileInfo{Mode: 0o644}))
	fi, err := os.Stat(taken)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), fi.Mode(), "as what it replaces")

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	_, err = CreateFile(pipe)
	require.ErrorContains(t, err, "not a regular file")
	_, err = CreateFile(dir + "/none/copy")
	require.ErrorIs(t, err, fs.ErrNotExist)
	longest := filepath.Join(dir, strings.Repeat("x", maxName))
	f, err = CreateFile(longest)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = CreateFile(longest + "x")
	require.ErrorIs(t, err, unix.ENAMETOOLONG)
}

// inFolder makes a file in a folder, which Begin has given a name, with one byte.
func inFolder(t *testing.T, dir, name string, part bool, content byte) *NewFile {
	f, err := CreateFile(dir)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	if part {
		require.NoError(t, f.file.Close())
		require.NoError(t, f.openPart())
	}
	require.NoError(t, f.Begin(FileInfo{Name: name}))
	_, err = f.WriteAt([]byte{content}, 0)
	require.NoError(t, err)
	return f
}

// TestNewFileNames: a file can have each name that a sender may give, up to the longest.
func TestNewFileNames(t *testing.T) {
	for _, name := range []string{"x", strings.Repeat("ü", 127), strings.Repeat("x", maxName)} {
		for _, part := range []bool{false, true} {
			dir := t.TempDir()
			f := inFolder(t, dir, name, part, '0')
			require.NoError(t, f.Keep(FileInfo{Mode: 0o600}))
			require.NoError(t, f.Close())
			require.Equal(t, []string{name}, names(t, dir))
		}
	}
}

// TestNewFileReplacesLongest: a file of the longest name is replaced, too, by way of another name.
func TestNewFileReplacesLongest(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, strings.Repeat("x", maxName))
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := CreateFile(path)
	require.NoError(t, err)
	require.NoError(t, f.Begin(FileInfo{Size: 3}))
	_, err = f.WriteAt([]byte("new"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Keep(FileInfo{Size: 3}))
	require.NoError(t, f.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(b))
	require.Equal(t, []string{filepath.Base(path)}, names(t, dir))
}

// TestNewFileWithoutMode: a sender who says nothing of permissions makes no file that nobody may read.
func TestNewFileWithoutMode(t *testing.T) {
	f := inFolder(t, t.TempDir(), "x", false, '0')
	require.NoError(t, f.Keep(FileInfo{}))
	fi, err := os.Stat(f.Name())
	require.NoError(t, err)
	require.Equal(t, 0o600&^umask(), fi.Mode())
}

// TestNewFileAgain: of a transfer that has failed nothing is left in what the next one sends, not even its name; and a file that was kept
// stays as it is.
func TestNewFileAgain(t *testing.T) {
	for _, path := range []string{"", "second"} {
		for _, part := range []bool{false, true} {
			dir := t.TempDir()
			f, err := CreateFile(filepath.Join(dir, path))
			require.NoError(t, err)
			defer f.Close()
			if part {
				require.NoError(t, f.file.Close())
				require.NoError(t, f.openPart())
			}
			for _, name := range []string{"longest", "second"} {
				require.NoError(t, f.Begin(FileInfo{Name: name}))
				_, err = f.WriteAt([]byte(name), 0)
				require.NoError(t, err)
			}
			require.NoError(t, f.Keep(FileInfo{Mode: 0o600}))
			require.ErrorIs(t, f.Begin(FileInfo{Name: "third"}), sdr.ErrArgument)
			require.ErrorIs(t, f.Keep(FileInfo{Mode: 0o600}), sdr.ErrArgument)
			require.NoError(t, f.Close())
			require.Equal(t, []string{"second"}, names(t, dir))
			content, err := os.ReadFile(filepath.Join(dir, "second"))
			require.NoError(t, err)
			require.Equal(t, "second", string(content))
		}
	}
}

// TestNewFileTaken: of two files that are to have the same name in a folder the second is refused, also when the first got it only after
// the second had asked. What the receiver has named is replaced.
func TestNewFileTaken(t *testing.T) {
	for _, part := range []bool{false, true} {
		dir := t.TempDir()
		first, second := inFolder(t, dir, "x", part, '1'), inFolder(t, dir, "x", part, '2')
		require.NoError(t, first.Keep(FileInfo{Mode: 0o600}))
		require.ErrorIs(t, second.Keep(FileInfo{Mode: 0o600}), fs.ErrExist)
		require.NoError(t, first.Close())
		require.NoError(t, second.Close())
		require.Equal(t, []string{"x"}, names(t, dir))
		content, err := os.ReadFile(first.Name())
		require.NoError(t, err)
		require.Equal(t, "1", string(content))

		named, err := CreateFile(first.Name())
		require.NoError(t, err)
		require.NoError(t, named.Keep(FileInfo{Mode: 0o600}))
		require.NoError(t, named.Close())
		content, err = os.ReadFile(first.Name())
		require.NoError(t, err)
		require.Empty(t, content)
	}
}

// TestNewFileKeepFails: what goes wrong at the end, such as a quota that only Sync meets, is said of the file, and not of its folder.
func TestNewFileKeepFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy")
	f, err := CreateFile(path)
	require.NoError(t, err)
	require.NoError(t, f.file.Close()) // so that nothing can be done to it
	require.ErrorContains(t, f.Keep(FileInfo{}), "chmod "+path+":")
}

// TestNewFileOfOthers: another user's file in a folder as /tmp, which could not be replaced in the end, is refused at the beginning.
func TestNewFileOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files of another user take root")
	}
	t.Chdir(t.TempDir()) // which nobody has a way to from the root on
	require.NoError(t, os.Chmod(".", 0o777|fs.ModeSticky))
	require.NoError(t, os.WriteFile("others", []byte("old"), 0o666))
	require.NoError(t, os.WriteFile("own", nil, 0o666))
	require.NoError(t, os.Chown("own", nobody, nobody))
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // which ends with this goroutine
		_ = unix.Setfsuid(nobody)
		_, err := CreateFile("others")
		assert.ErrorContains(t, err, "it can't be replaced")
		f, err := CreateFile("own")
		if assert.NoError(t, err) {
			assert.NoError(t, f.Close())
		}
	})
	wg.Wait()
	require.Equal(t, []string{"others", "own"}, names(t, "."))
	f, err := CreateFile("others") // root may
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

const nobody = 65534

// TestNewFileWithoutAttributes: a file system that refuses permissions and times, as one whose files all belong to somebody else, loses no file.
func TestNewFileWithoutAttributes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files of another user take root")
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.Chmod(".", 0o777))
	f, err := CreateFile("copy")
	require.NoError(t, err)
	require.NoError(t, f.file.Close())
	require.NoError(t, f.openPart())
	require.NoError(t, f.file.Chown(1, 1))
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // which ends with this goroutine
		_ = unix.Setfsuid(nobody)
		assert.ErrorIs(t, f.file.Chmod(0o644), unix.EPERM)
		assert.NoError(t, f.Keep(FileInfo{Mode: 0o644, ModTime: time.Unix(1, 0)}))
	})
	wg.Wait()
	require.NoError(t, f.Close())
	require.Equal(t, []string{"copy"}, names(t, "."))
}

// TestNewFileOverMount: neither is a file kept for which one would have to be replaced that is a mount point.
func TestNewFileOverMount(t *testing.T) {
	if !netnstest.Again(t, unix.CLONE_NEWNS) {
		return
	}
	dir := t.TempDir()
	at, other := filepath.Join(dir, "at"), filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(at, nil, 0o600))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	if err := unix.Mount(other, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("no mounts in a user namespace here: %v", err)
	}
	defer func() { require.NoError(t, unix.Unmount(at, 0)) }()
	_, err := CreateFile(at)
	require.ErrorContains(t, err, "mount point")
	require.Equal(t, []string{"at", "other"}, names(t, dir))
}

// TestNewFileWithoutProc: where there is no /proc, as in a chroot, a file gets its name all the same.
func TestNewFileWithoutProc(t *testing.T) {
	if !netnstest.Again(t, unix.CLONE_NEWNS) {
		return
	}
	if err := unix.Mount("none", "/proc", "tmpfs", 0, ""); err != nil {
		t.Skipf("no mounts in a user namespace here: %v", err)
	}
	dir := t.TempDir()
	for range 2 { // the second replaces the first
		f, err := CreateFile(filepath.Join(dir, "copy"))
		require.NoError(t, err)
		require.NoError(t, f.Keep(FileInfo{Mode: 0o600, ModTime: time.Unix(1, 0)}))
		require.NoError(t, f.Close())
		require.Equal(t, []string{"copy"}, names(t, dir))
		fi, err := os.Stat(f.Name())
		require.NoError(t, err)
		require.True(t, time.Unix(1, 0).Equal(fi.ModTime()), "%v", fi.ModTime())
	}
}

// TestNewFileNeedsRoom: a disk that is too small refuses a file when its size is announced, and takes one that fits; one that says nothing of its
// size, and can reserve nothing, takes each.
func TestNewFileNeedsRoom(t *testing.T) {
	if !netnstest.Again(t, unix.CLONE_NEWNS) {
		return
	}
	const room = 1 << 20
	for _, c := range []struct{ kind, options string }{{"tmpfs", "size=1m"}, {"ramfs", ""}} {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, c.kind, 0, c.options); err != nil {
			t.Skipf("no mounts in a user namespace here: %v", err)
		}
		for _, path := range []string{dir, filepath.Join(dir, "copy")} {
			f, err := CreateFile(path)
			require.NoError(t, err)
			if err := f.Begin(FileInfo{Name: "x", Size: 2 * room}); c.kind == "tmpfs" {
				require.ErrorIs(t, err, unix.ENOSPC)
				require.ErrorContains(t, err, "it has 2 MiB: choose another folder")
			} else {
				require.NoError(t, err)
			}
			require.NoError(t, f.Begin(FileInfo{Name: "x", Size: room / 2}))
			fi, err := f.file.Stat()
			require.NoError(t, err)
			require.Zero(t, fi.Size())
			if c.kind == "tmpfs" {
				require.EqualValues(t, room/2, fi.Sys().(*syscall.Stat_t).Blocks*512)
				other, err := CreateFile(filepath.Join(dir, "other"))
				require.NoError(t, err)
				require.ErrorIs(t, other.Begin(FileInfo{Size: room/2 + 4096}), unix.ENOSPC, "the room is the first one's")
				require.NoError(t, other.Close())
			}
			require.NoError(t, f.Close())
			require.Empty(t, names(t, dir))
		}
		require.NoError(t, unix.Unmount(dir, 0))
	}
}

func TestUmask(t *testing.T) {
	mask := unix.Umask(0o123)
	defer unix.Umask(mask)
	require.Equal(t, fs.FileMode(0o123), umask())
}
