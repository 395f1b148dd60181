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

// Open prepares the private root dir for an architecture and some suites of the archive, such as Bookworm. mirror replaces
// the archive found in the machine's sources; it may be empty. The package lists are brought up to date, because
// those of before name packages that the archive no longer has.
func Open(ctx context.Context, dir, mirror, arch string, suites []string) (*Archive, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("apt-get is missing: the VM's kernel comes from Debian packages, so the host must have apt")
	}
	for _, d := range []string{"state/lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	list, err := sources(mirror, "/etc/apt", suites)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "archive.sources")
	if err := os.WriteFile(file, []byte(list), 0o644); err != nil {
		return nil, err
	}
	a := &Archive{dir: dir, options: []string{
		"-o", "Dir::State=" + filepath.Join(dir, "state"),
		"-o", "Dir::Cache=" + filepath.Join(dir, "cache"),
		"-o", "Dir::Etc::sourcelist=" + file,
		"-o", "Dir::Etc::sourceparts=-",
		"-o", "APT::Architecture=" + arch,
		"-o", "APT::Sandbox::User=" + sandboxUser(),
		"-o", "Acquire::Languages=none",
		"-o", "APT::Update::Error-Mode=any", // otherwise an archive that can't be reached is a warning
		"-qq",
	}}
	_, err = a.run(ctx, dir, "apt-get", "update")
	return a, err
}

// sandboxUser keeps apt from switching to its own account, which could not enter a private folder.
func sandboxUser() string {
	if os.Getuid() == 0 {
		return "root"
	}
	return "_apt"
}

var (
	imagePackage = regexp.MustCompile(`^linux-image-[0-9]`)
	// splitPackage are the parts that the image package only depends on since Linux 7: the image, the
	// modules, and what the modules share. Ubuntu's are split, too.
	splitPackage = regexp.MustCompile(`^linux-(binary|modules|base)-[0-9]`)
)

// KernelPackages resolves a package that stands for a kernel, such as linux-image-amd64, of a suite, such as "bookworm" or
// "bookworm-backports", or the newest of all suites when it is empty, to the packages with image and modules that it stands
// for today.
func (a *Archive) KernelPackages(ctx context.Context, pkg, suite string) ([]string, error) {
	which := pkg + "/" + suite
	if suite == "" {
		version, err := a.newest(ctx, pkg)
		if err != nil {
			return nil, err
		}
		which = pkg + "=" + version
	}
	meta, err := a.depends(ctx, which, imagePackage)
	if err != nil {
		return nil, err
	}
	if len(meta) == 0 {
		return nil, fmt.Errorf("%s names no kernel", which)
	}
	parts, err := a.depends(ctx, meta[0], splitPackage)
	return append(meta[:1], parts...), err
}

// newest is the highest version of a package.
func (a *Archive) newest(ctx context.Context, pkg string) (string, error) {
	out, err := a.run(ctx, a.dir, "apt-cache", "madison", pkg)
	if err != nil {
		return "", err
	}
	return firstVersion(out, pkg)
}

// firstVersion reads what apt-cache madison prints, "PACKAGE | VERSION | ARCHIVE", the highest version first.
func firstVersion(out, pkg string) (string, error) {
	_, rest, _ := strings.Cut(out, "|")
	version, _, ok := strings.Cut(rest, "|")
	if !ok {
		return "", fmt.Errorf("the archive has no %s", pkg)
	}
	return strings.TrimSpace(version), nil
}

// depends returns the packages that a package depends on and whose names match.
func (a *Archive) depends(ctx context.Context, pkg string, names *regexp.Regexp) ([]string, error) {
	out, err := a.run(ctx, a.dir, "apt-cache", "show", pkg)
	if err != nil {
		return nil, err
	}
	return dependsOf(out, names), nil
}

// dependsOf reads the first of the records that apt-cache show prints.
func dependsOf(out string, names *regexp.Regexp) (all []string) {
	for line := range strings.Lines(out) {
		list, ok := strings.CutPrefix(line, "Depends:")
		if !ok {
			continue
		}
		for d := range strings.SplitSeq(list, ",") {
			if f := strings.Fields(d); len(f) > 0 && names.MatchString(f[0]) {
				all = append(all, f[0])
			}
		}
		return all
	}
	return nil
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
		return "", fmt.Errorf("%s %s: %w\n%s", tool, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
