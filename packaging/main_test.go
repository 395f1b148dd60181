// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program stands for those that are released: a main that says where it was compiled, which must not differ.
const program = `package main

import (
	"os"
	"runtime"
)

func main() {
	if begun := os.Getenv("FIXTURE_WAITS"); begun != "" {
		os.WriteFile(begun, nil, 0o600)
		select {}
	}
	_, file, _, _ := runtime.Caller(0)
	println(file)
	os.Stdout.WriteString("prog 1.2.3\n")
}
`

// fixture is a module of the released programs' names in a repository of its own.
func fixture(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	write("go.mod", "module example.org/fixture\n\ngo 1.26\n")
	for _, p := range programs {
		write("cmd/"+p+"/main.go", program)
	}
	for _, d := range documents {
		write(d, d+", and more in [docs](docs/README.md)\n")
	}
	env := []string{
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "all"}} {
		_, err := output(t.Context(), dir, env, "git", args...)
		require.NoError(t, err)
	}
	return dir
}

// TestReproducible: two checkouts of one commit, in different folders and one of them a worktree with a file of its own, give the same
// archive, to the byte.
func TestReproducible(t *testing.T) {
	all, two := architectures, programs
	t.Cleanup(func() { architectures, programs = all, two })
	architectures, programs = []string{runtime.GOARCH}, programs[:1] // the others take the same way
	outs := []string{t.TempDir(), t.TempDir()}
	name := "sdr-1.2.3-linux-" + runtime.GOARCH
	tree := filepath.Join(t.TempDir(), "tree")
	_, err := output(t.Context(), fixture(t), nil, "git", "worktree", "add", "-q", tree)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(tree, "cmd", "sdr-perf", "own.go"), []byte("package main\n\nfunc init() { println() }\n"), 0o644))
	for i, source := range []string{fixture(t), tree} {
		out := outs[i]
		t.Setenv("GOFIPS140", []string{"off", "latest"}[i]) // as some hosts have it for all that is built there
		require.NoError(t, run(t.Context(), source, out))
		b, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		require.NoError(t, err)
		require.Regexp(t, "^[0-9a-f]{64}  "+name+`\.tar\.gz\n$`, string(b))
	}
	first, err := os.ReadFile(filepath.Join(outs[0], name+".tar.gz"))
	require.NoError(t, err)
	second, err := os.ReadFile(filepath.Join(outs[1], name+".tar.gz"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, second), "the archives differ")

	files := unpack(t, first)
	require.Len(t, files, len(documents)+6)
	binary := files[name+"/bin/sdr-perf"]
	require.EqualValues(t, 0o755, binary.header.Mode)
	require.Equal(t, time.Unix(1_700_000_000, 0), binary.header.ModTime)
	require.NotContains(t, string(binary.content), outs[0][:strings.LastIndex(outs[0], "/")], "a path of the host")
	require.Contains(t, string(binary.content), "vcs.revision=", "it says which commit it is of")
	require.Contains(t, string(files[name+"/README.md"].content), "(https://github.com/sdr-rdma/go-sdr/blob/")
	require.Contains(t, string(files[name+"/"+thirdParty].content), "The Go Authors")
	require.Equal(t, "prog 1.2.3\n", string(files[name+"/share/man/man1/sdr-perf.1"].content))
}

// TestLicenses: what is linked into the programs has its terms beside them, and what has none isn't released.
func TestLicenses(t *testing.T) {
	text, err := licenses(t.Context(), "..")
	require.NoError(t, err)
	for _, want := range []string{
		"==== The Go library, go1.", "==== github.com/spf13/pflag v", "==== codeberg.org/go-fonts/liberation v",
		"SIL OPEN FONT LICENSE", "The FreeType Project LICENSE", "Copyright (c) 2015 Klaus Post",
	} {
		require.Contains(t, string(text), want)
	}
	require.NotContains(t, string(text), "stretchr/testify", "what only tests use")
	require.ErrorContains(t, appendLicenses(new(bytes.Buffer), "m v1", t.TempDir()), "m v1 has no licence in ")
}

// TestLinksLeadSomewhere: what the archive doesn't have is linked to where it is.
func TestLinksLeadSomewhere(t *testing.T) {
	const there = "https://github.com/sdr-rdma/go-sdr"
	for text, want := range map[string]string{
		"[a](docs/x.md)":                    "[a](" + there + "/blob/c0/docs/x.md)",
		"[a\nb](docs/x.md#part), [c](docs)": "[a\nb](" + there + "/blob/c0/docs/x.md#part), [c](" + there + "/blob/c0/docs)",
		"![p](docs/p.svg)":                  "![p](" + there + "/raw/c0/docs/p.svg)",
		"[b](SECURITY.md)":                  "[b](SECURITY.md)",
		"[c](https://example.org/x#y)":      "[c](https://example.org/x#y)",
		"[d](#here) and f(x)":               "[d](#here) and f(x)",
	} {
		require.Equal(t, want, string(withLinks([]byte(text), "c0")))
	}
	for _, name := range documents {
		b, err := os.ReadFile(filepath.Join("..", name))
		require.NoError(t, err)
		for _, l := range link.FindAllSubmatch(withLinks(b, "c0"), -1) {
			require.Contains(t, documents, string(l[3]), name)
		}
	}
}

// TestChangesAreRefused: what isn't committed can't be built by others, so that it is no release.
func TestChangesAreRefused(t *testing.T) {
	dir, out := fixture(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, documents[0]), []byte("changed\n"), 0o644))
	require.ErrorContains(t, run(t.Context(), dir, out), "commit them first\n M "+documents[0])
	files, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, files)
}

// TestShallowCloneIsRefused: without the tags of before, the go command gives the same commit another version.
func TestShallowCloneIsRefused(t *testing.T) {
	dir, out := fixture(t), t.TempDir()
	commit, err := output(t.Context(), dir, nil, "git", "rev-parse", "HEAD")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "shallow"), commit, 0o644))
	require.ErrorContains(t, run(t.Context(), dir, out), "git fetch --unshallow --tags")
	files, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, files)
}

// TestExperimentIsRefused: a toolchain with other defaults makes other programs.
func TestExperimentIsRefused(t *testing.T) {
	out := t.TempDir()
	t.Setenv("GOEXPERIMENT", "jsonv2")
	require.ErrorContains(t, run(t.Context(), fixture(t), out), "GOEXPERIMENT is jsonv2")
	files, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, files)
}

// TestInterrupt: Ctrl-C leaves nothing of what was built.
func TestInterrupt(t *testing.T) {
	source, out, tmp, begun := fixture(t), t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "begun")
	t.Setenv("FIXTURE_WAITS", begun)
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(begun); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	require.Error(t, run(ctx, source, out))
	for _, dir := range []string{out, tmp} {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, files)
	}
}

type unpacked struct {
	header  *tar.Header
	content []byte
}

func unpack(t *testing.T, archive []byte) map[string]unpacked {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	files := map[string]unpacked{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Zero(t, h.Uid+h.Gid)
		files[h.Name] = unpacked{h, b}
	}
}

// TestProgramsAreThere: what is released exists.
func TestProgramsAreThere(t *testing.T) {
	for _, p := range programs {
		require.FileExists(t, filepath.Join("..", "cmd", p, "main.go"))
	}
	for _, d := range documents {
		require.FileExists(t, filepath.Join("..", d))
	}
}
