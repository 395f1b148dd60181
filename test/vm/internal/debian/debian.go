// SPDX-License-Identifier: Apache-2.0

// Package debian downloads and unpacks Debian packages without installing them. It runs apt with
// a private root, so that neither the machine's package lists nor its installed packages matter
// or change; the archive and its keys are those of the machine's own apt sources.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Archive is one private apt root.
type Archive struct {
	dir     string
	options []string
}

// ErrNoSource means that the machine's apt sources name no Debian archive.
var ErrNoSource = errors.New("no Debian archive among this machine's apt sources: name one, " +
	"for example -mirror http://ARCHIVE/debian, and install debian-archive-keyring")

// Open prepares the private root dir for the releases of Debian 12: its main, security and
// backports suites. mirror replaces the archive found in the machine's sources; it may be empty.
// Package lists are fetched once and kept until Refresh.
func Open(ctx context.Context, dir, mirror string) (*Archive, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("apt-get is missing: the VM's kernel comes from Debian packages, so the host must have apt")
	}
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	list, err := sources(mirror, "/etc/apt")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "archive.sources")
	old, _ := os.ReadFile(file)
	if err := os.WriteFile(file, []byte(list), 0o644); err != nil {
		return nil, err
	}
	a := &Archive{dir: dir, options: []string{
		"-o", "Dir::State=" + filepath.Join(dir, "state"),
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Dir::Etc::sourcelist=" + file,
		"-o", "Dir::Etc::sourceparts=-",
		"-o", "APT::Architecture=amd64",
		"-o", "APT::Sandbox::User=" + sandboxUser(),
		"-o", "Acquire::Languages=none",
		"-qq",
	}}
	if _, err := os.Stat(a.stamp()); err == nil && string(old) == list {
		return a, nil
	}
	return a, a.Refresh(ctx)
}

// sandboxUser keeps apt from switching to its own account, which could not enter a private folder.
func sandboxUser() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return "_apt"
}

func (a *Archive) stamp() string { return filepath.Join(a.dir, "refreshed") }

// Refresh fetches the package lists.
func (a *Archive) Refresh(ctx context.Context) error {
	if _, err := a.run(ctx, a.dir, "apt-get", "update"); err != nil {
		return err
	}
	return os.WriteFile(a.stamp(), nil, 0o644)
}

var kernelDepends = regexp.MustCompile(`(?m)^Depends:.*\b(linux-image-[0-9][^ ,]*)`)

// KernelPackage resolves the meta package linux-image-amd64 of a suite, such as "bookworm" or
// "bookworm-backports", to the image package that it stands for today.
func (a *Archive) KernelPackage(ctx context.Context, suite string) (string, error) {
	out, err := a.run(ctx, a.dir, "apt-cache", "show", "linux-image-amd64/"+suite)
	if err != nil {
		return "", err
	}
	m := kernelDepends.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("suite %s has no linux-image-amd64", suite)
	}
	return m[1], nil
}

// Unpack downloads the packages and unpacks their files below dst, running none of their scripts.
func (a *Archive) Unpack(ctx context.Context, dst string, packages ...string) error {
	tmp, err := os.MkdirTemp(a.dir, "download-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if _, err := a.run(ctx, tmp, "apt-get", append([]string{"download"}, packages...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil {
		return err
	}
	if len(debs) != len(packages) {
		return fmt.Errorf("apt-get download brought %d of %d packages", len(debs), len(packages))
	}
	for _, deb := range debs {
		if out, err := exec.CommandContext(ctx, "dpkg-deb", "-x", deb, dst).CombinedOutput(); err != nil {
			return fmt.Errorf("dpkg-deb -x %s: %w: %s", filepath.Base(deb), err, lastLine(string(out)))
		}
	}
	return nil
}

func (a *Archive) run(ctx context.Context, dir, tool string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, tool, append(append([]string{}, a.options...), args...)...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, lastLine(stderr.String()))
	}
	return string(out), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
