// SPDX-License-Identifier: Apache-2.0

package result

import (
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Looking whether a file can be written leaves nothing behind, and what is there as it is; and it finds what writing would.
func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	name, pipe := filepath.Join(dir, "x.svg"), filepath.Join(t.TempDir(), "pipe") // for /dev/null, which a mistake would replace for all
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	require.NoError(t, CheckWritable("", "-", name, pipe, "", "-", pipe))
	require.ErrorContains(t, CheckWritable(name, name), "named twice")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	require.NoError(t, WriteFile(name, []byte("old")))
	require.NoError(t, CheckWritable(name))
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "old", string(b))
	require.NoError(t, WriteFile(pipe, []byte("gone")))
	b = make([]byte, 10)
	n, err := reader.Read(b)
	require.NoError(t, err)
	require.Equal(t, "gone", string(b[:n]))

	for _, bad := range []string{filepath.Join(name, "below"), filepath.Join(dir, "no folder", "x"), dir} {
		require.ErrorContains(t, CheckWritable(bad), bad)
		require.ErrorContains(t, WriteFile(bad, nil), bad)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4, Max: was.Max}))
	err = WriteFile(name, []byte("too large"))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was))
	require.EqualError(t, err, "write "+name+": file too large")
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// TestWriteFileKeepsWhatItReplaces: permissions stay as they are, links point where they did, and a new file has no more permissions than
// the user lets files have.
func TestWriteFileKeepsWhatItReplaces(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "x.json"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	require.NoError(t, os.Symlink("x.json", link))
	require.NoError(t, WriteFile(name, []byte("new")))
	require.Equal(t, "-rw-------", modeOf(t, name))

	require.NoError(t, CheckWritable(link))
	require.NoError(t, WriteFile(link, []byte("by a link")))
	require.Equal(t, "Lrwxrwxrwx", modeOf(t, link))
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "by a link", string(b))

	defer unix.Umask(unix.Umask(0o027))
	fresh := filepath.Join(dir, "fresh.json")
	require.NoError(t, WriteFile(fresh, nil))
	require.Equal(t, "-rw-r-----", modeOf(t, fresh))
}

// TestWriteFileBesideOthers: a temporary file of another program, which may have been killed, is in nobody's way and stays as it is.
func TestWriteFileBesideOthers(t *testing.T) {
	dir := t.TempDir()
	theirs, name := filepath.Join(dir, ".sdr-0"), filepath.Join(dir, "x.json")
	require.NoError(t, os.WriteFile(theirs, []byte("theirs"), 0o600))
	require.NoError(t, CheckWritable(name))
	require.NoError(t, WriteFile(name, []byte("ours")))
	for file, want := range map[string]string{theirs: "theirs", name: "ours"} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
}

// A percentile that few transfers don't tell is null in a file of results, and no time.
func TestUnknownPercentilesAreNull(t *testing.T) {
	b, err := json.Marshal(Completion{Avg: 5, P90: 3})
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(b, &got))
	require.EqualValues(t, 3, got["p90"])
	require.Nil(t, got["p99"])
}

func TestBucketsAreRead(t *testing.T) {
	want := []Bucket{{UpTo: 5, Count: 7}, {UpTo: 9, Count: 1 << 40}}
	b, err := json.Marshal(want)
	require.NoError(t, err)
	var got []Bucket
	require.NoError(t, json.Unmarshal(b, &got))
	require.Equal(t, want, got)
	require.Error(t, json.Unmarshal([]byte("[[5]]"), &got))
}

func modeOf(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Lstat(name)
	require.NoError(t, err)
	return info.Mode().String()
}

// TestWriteFileInForeignFolder: a file that the user may write to is written to, also where he may make none beside it.
func TestWriteFileInForeignFolder(t *testing.T) {
	t.Chdir(t.TempDir()) // which nobody has a way to from the root on
	const dir, own = "foreign", "own"
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.Mkdir(own, 0o755))
	mine, others := filepath.Join(dir, "mine"), filepath.Join(dir, "others")
	require.NoError(t, os.WriteFile(mine, []byte("longer than what comes"), 0o600))
	require.NoError(t, os.WriteFile(others, nil, 0o400))
	link := filepath.Join(own, "link")
	require.NoError(t, os.Symlink(filepath.Join("..", others), link))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(mine, nobody, nobody))
		require.NoError(t, os.Chmod(".", 0o755))
		require.NoError(t, os.Chmod(own, 0o777)) // beside the link files may be made
	}
	require.NoError(t, os.Chmod(dir, 0o555))
	defer func() { require.NoError(t, os.Chmod(dir, 0o755)) }()
	asNobody(func() {
		assert.NoError(t, CheckWritable(mine))
		assert.NoError(t, WriteFile(mine, []byte("new")))
		for _, bad := range []string{others, link, filepath.Join(dir, "none")} {
			assert.ErrorContains(t, CheckWritable(bad), bad)
			assert.ErrorContains(t, WriteFile(bad, nil), bad)
		}
	})
	b, err := os.ReadFile(mine)
	require.NoError(t, err)
	require.Equal(t, "new", string(b))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2)
}

const nobody = 65534

// asNobody runs f on a thread without root's right to write everywhere, which ends with it.
func asNobody(f func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		if os.Geteuid() == 0 {
			runtime.LockOSThread()
			_ = unix.Setfsuid(nobody)
		}
		f()
	})
	wg.Wait()
}
