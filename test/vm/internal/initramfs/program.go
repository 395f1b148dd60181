// SPDX-License-Identifier: Apache-2.0

package initramfs

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// libraryDirs are where a Debian system of any age keeps the libraries of a machine's programs.
var libraryDirs = map[string][]string{
	"amd64": {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/lib", "/usr/lib"},
	"arm64": {"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib", "/usr/lib"},
}

// machines are how ELF files call the architectures.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// Program adds the executable src as name, together with the program interpreter and the shared
// libraries it needs, looked up below each of the roots ("" is the host itself). A static
// program, such as any built with CGO_ENABLED=0, is added alone.
func (a *Writer) Program(name, src string, roots ...string) error {
	a.CopyFile(name, src)
	if a.err != nil {
		return a.err
	}
	if len(roots) == 0 {
		roots = []string{""}
	}
	return a.needed(src, roots, map[string]bool{})
}

func (a *Writer) needed(src string, roots []string, done map[string]bool) error {
	interp, libs, err := a.dynamic(src)
	if err != nil {
		return err
	}
	if interp != "" {
		if err := a.library(interp, roots, done); err != nil {
			return fmt.Errorf("%s: %w", src, err)
		}
	}
	for _, lib := range libs {
		if err := a.library(lib, roots, done); err != nil {
			return fmt.Errorf("%s: %w", src, err)
		}
	}
	return nil
}

// library adds one library, given by soname or path, and what it needs in turn.
func (a *Writer) library(lib string, roots []string, done map[string]bool) error {
	if done[lib] {
		return nil
	}
	done[lib] = true
	host, guest, err := findLibrary(lib, libraryDirs[a.arch], roots)
	if err != nil {
		return err
	}
	a.CopyFile(guest, host)
	if a.err != nil {
		return a.err
	}
	return a.needed(host, roots, done)
}

func findLibrary(lib string, dirs, roots []string) (host, guest string, err error) {
	candidates := []string{lib}
	if !strings.HasPrefix(lib, "/") {
		candidates = candidates[:0]
		for _, d := range dirs {
			candidates = append(candidates, path.Join(d, lib))
		}
	}
	for _, root := range roots {
		for _, c := range candidates {
			// A merged /usr keeps /lib as a link that an unpacked package does not have.
			for _, p := range []string{c, "/usr" + c} {
				if _, err := os.Stat(filepath.Join("/", root, p)); err == nil {
					return filepath.Join("/", root, p), c, nil
				}
			}
		}
	}
	return "", "", fmt.Errorf("needs %s, which is in none of the library folders", lib)
}

// dynamic returns the interpreter and the needed libraries of an ELF file; both are empty for
// static programs and for scripts.
func (a *Writer) dynamic(file string) (interp string, libs []string, err error) {
	if is, err := isELF(file); !is {
		return "", nil, err
	}
	f, err := elf.Open(file)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	if f.Machine != machines[a.arch] {
		return "", nil, fmt.Errorf("%s is for %v, the VM is %s: build with GOARCH=%s", file, f.Machine, a.arch, a.arch)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b := make([]byte, p.Filesz)
			if _, err := p.ReadAt(b, 0); err != nil {
				return "", nil, err
			}
			interp = strings.TrimRight(string(b), "\x00")
		}
	}
	if interp == "" && f.Type == elf.ET_EXEC {
		return "", nil, nil
	}
	libs, err = f.ImportedLibraries()
	return interp, libs, err
}

func isELF(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	magic := make([]byte, len(elf.ELFMAG))
	_, err = io.ReadFull(f, magic)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return string(magic) == elf.ELFMAG, err
}
