// SPDX-License-Identifier: Apache-2.0

// Packaging builds what a release consists of: static binaries for amd64 and arm64 with completions and manual
// pages, which the binaries themselves write, and the licences of what is linked into them, in an archive for each architecture, and their
// checksums.
//
//	go run ./packaging             # into dist
//	go run ./packaging -out /tmp/release
//	go run ./packaging -licenses > THIRD-PARTY-LICENSES
//
// The same commit and the same Go release give the same bytes, wherever and whenever they are built from a clone with its tags: paths are
// trimmed, nothing is linked that the host has, and the archive's times are the commit's. Who doubts a published
// archive checks the tag out, runs this, and compares SHA256SUMS. A version is 0.1.0 only when the commit has the
// tag v0.1.0. What is built is a clone of the commit, so that files which it doesn't have play no part; with changes that
// aren't committed nothing is built.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs are what is released; architectures what for.
var (
	programs      = []string{"sdr-perf", "sdr-model", "sdr-fabric", "sdr-switch"}
	architectures = []string{"amd64", "arm64"}
	documents     = []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"}
)

// home is where the files are that an archive doesn't have.
const home = "https://github.com/sdr-rdma/go-sdr"

const usage = `Builds what a release consists of, from the commit that is checked out: static binaries for amd64 and arm64 with
completions, manual pages and licences, in an archive for each, and SHA256SUMS.

  go run ./packaging [-out FOLDER]
  go run ./packaging -licenses       print the licences of what is linked into the programs, and build nothing

Flags:
`

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	out := flag.String("out", "dist", "`folder` for the archives")
	onlyLicenses := flag.Bool("licenses", false, "print licences, build nothing")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "packaging: %q: there are no arguments, only flags: see -help\n", flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	work := func() error { return run(ctx, ".", *out) }
	if *onlyLicenses {
		work = func() error { return printLicenses(ctx, ".") }
	}
	if err := work(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// run packages the module at source. When ctx ends it removes what it has built so far, which is a lot.
func run(ctx context.Context, source, out string) error {
	at, err := commitTime(ctx, source)
	if err != nil {
		return err
	}
	if err := usualToolchain(ctx, source); err != nil {
		return err
	}
	stage, err := os.MkdirTemp("", "sdr-packaging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	if source, err = committed(ctx, source, filepath.Join(stage, "source")); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	shared, version, err := writtenByPrograms(ctx, source, filepath.Join(stage, "native"))
	if err != nil {
		return err
	}
	commit, err := output(ctx, source, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	for _, name := range documents {
		b, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		shared[name] = withLinks(b, string(bytes.TrimSpace(commit)))
	}
	if shared[thirdParty], err = licenses(ctx, source); err != nil {
		return err
	}
	var sums strings.Builder
	for _, arch := range architectures {
		files := map[string][]byte{}
		for name, content := range shared {
			files[name] = content
		}
		if err := build(ctx, source, filepath.Join(stage, arch), arch, files); err != nil {
			return err
		}
		name := fmt.Sprintf("sdr-%s-linux-%s", version, arch)
		b, err := archive(name, files, at)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".tar.gz"), b, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s.tar.gz\n", sha256.Sum256(b), name)
	}
	if _, err := os.Stdout.WriteString(sums.String()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// committed clones the commit that is checked out at source, with the tags before it. The go command notes the commit in the programs only where .git is a folder,
// which it isn't in a worktree.
func committed(ctx context.Context, source, clone string) (string, error) {
	changes, err := output(ctx, source, nil, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", err
	}
	if len(changes) > 0 {
		return "", fmt.Errorf("uncommitted changes, which nobody else can build: commit them first\n%s", bytes.TrimRight(changes, "\n"))
	}
	shallow, err := output(ctx, source, nil, "git", "rev-parse", "--is-shallow-repository")
	if err != nil {
		return "", err
	}
	if string(bytes.TrimSpace(shallow)) == "true" {
		return "", errors.New("a shallow clone lacks the tags of before, from which the version is made: git fetch --unshallow --tags")
	}
	if _, err := output(ctx, source, nil, "git", "clone", "-q", "--shared", ".", clone); err != nil {
		return "", err
	}
	return clone, nil
}

// usualToolchain fails where the compiler and the library have other defaults than those of the release. No value of GOEXPERIMENT means
// these: an empty one is what go env -w set.
func usualToolchain(ctx context.Context, source string) error {
	b, err := output(ctx, source, nil, "go", "env", "GOEXPERIMENT")
	if is := bytes.TrimSpace(b); err == nil && len(is) > 0 {
		err = fmt.Errorf("GOEXPERIMENT is %s, which makes other programs of the same source: unset it, or go env -u GOEXPERIMENT", is)
	}
	return err
}

// commitTime is that of the commit that is checked out.
func commitTime(ctx context.Context, source string) (time.Time, error) {
	b, err := output(ctx, source, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return time.Time{}, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return time.Unix(n, 0).UTC(), err
}

// output runs a program in a folder and returns what it prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // on which the go command removes its folder
	c.WaitDelay = 5 * time.Second
	var says bytes.Buffer
	c.Dir, c.Env, c.Stderr = dir, append(os.Environ(), env...), &says
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, says.Bytes())
	}
	return b, nil
}

// buildEnv is the environment in which everybody builds the same for an architecture. An empty value would be what go env -w set.
func buildEnv(arch string) []string {
	return []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOFLAGS=-trimpath", "GOWORK=off"}
}

// compile builds one program, static, and the same for everybody.
func compile(ctx context.Context, source, to, arch, program string) error {
	_, err := output(ctx, source, buildEnv(arch), "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", to, "./cmd/"+program)
	return err
}

// link is a link of Markdown to a file beside it: the mark of a picture, the text, the file and the place in it.
var link = regexp.MustCompile(`(!?)(\[[^\]]*\]\()([^)#:\s]+)(#[^)]*)?\)`)

// withLinks leads the links of a document that an archive has to what it doesn't have, as it is in the commit.
func withLinks(text []byte, commit string) []byte {
	return link.ReplaceAllFunc(text, func(all []byte) []byte {
		part := link.FindSubmatch(all)
		if slices.Contains(documents, string(part[3])) {
			return all
		}
		kind := "blob"
		if len(part[1]) > 0 {
			kind = "raw"
		}
		return fmt.Appendf(nil, "%s%s%s/%s/%s/%s%s)", part[1], part[2], home, kind, commit, part[3], part[4])
	})
}

// build compiles all programs for one architecture into files.
func build(ctx context.Context, source, stage, arch string, files map[string][]byte) error {
	for _, program := range programs {
		to := filepath.Join(stage, program)
		if err := compile(ctx, source, to, arch, program); err != nil {
			return err
		}
		b, err := os.ReadFile(to)
		if err != nil {
			return err
		}
		files["bin/"+program] = b
	}
	return nil
}

// writtenByPrograms are the completions and manual pages that the programs write, built for this host, and their version.
func writtenByPrograms(ctx context.Context, source, stage string) (files map[string][]byte, version string, err error) {
	files = map[string][]byte{}
	for _, program := range programs {
		binary := filepath.Join(stage, program)
		if err := compile(ctx, source, binary, runtime.GOARCH, program); err != nil {
			return nil, "", err
		}
		for name, args := range map[string][]string{
			"share/man/man1/" + program + ".1":                     {"manual"},
			"share/bash-completion/completions/" + program:         {"completion", "bash"},
			"share/zsh/site-functions/_" + program:                 {"completion", "zsh"},
			"share/fish/vendor_completions.d/" + program + ".fish": {"completion", "fish"},
		} {
			if files[name], err = output(ctx, source, nil, binary, args...); err != nil {
				return nil, "", err
			}
		}
		b, err := output(ctx, source, nil, binary, "version")
		if err != nil {
			return nil, "", err
		}
		_, version, _ = strings.Cut(strings.TrimSpace(string(b)), " ")
	}
	return files, version, nil
}

// archive packs files under a folder, in order, with one time and no owner.
func archive(folder string, files map[string][]byte, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		mode := int64(0o644)
		if path.Dir(name) == "bin" {
			mode = 0o755
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(folder, name), Size: int64(len(files[name])), Mode: mode, ModTime: at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
