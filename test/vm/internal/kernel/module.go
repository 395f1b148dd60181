// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree indexes the modules of one unpacked kernel package.
type tree struct {
	files   map[string]string // module name -> path
	builtin map[string]bool
}

// moduleName is how the kernel calls the module of a file: dashes are underscores.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

func readTree(dir string) (*tree, error) {
	t := &tree{files: map[string]string{}, builtin: map[string]bool{}}
	err := filepath.WalkDir(filepath.Join(dir, "kernel"), func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			t.files[moduleName(p)] = p
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	for line := range strings.Lines(string(list)) {
		t.builtin[moduleName(strings.TrimSpace(line))] = true
	}
	return t, err
}

// present are those of the modules that the kernel has as files.
func (t *tree) present(names []string) (have []string) {
	for _, name := range names {
		if t.files[name] != "" {
			have = append(have, name)
		}
	}
	return have
}

// extract writes the wanted modules and all they depend on into out, decompressed, and returns
// their names in an order in which they can be loaded.
func (t *tree) extract(ctx context.Context, out string, wanted []string) ([]string, error) {
	var order []string
	done := map[string]bool{}
	var visit func(name, by string) error
	visit = func(name, by string) error {
		if done[name] || t.builtin[name] {
			return nil
		}
		done[name] = true
		file, ok := t.files[name]
		if !ok {
			return fmt.Errorf("this kernel has no module %s (wanted by %s)", name, by)
		}
		image, err := readModule(ctx, file)
		if err != nil {
			return err
		}
		deps, err := depends(image)
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for _, d := range deps {
			if err := visit(d, name); err != nil {
				return err
			}
		}
		order = append(order, name)
		return os.WriteFile(filepath.Join(out, name+".ko"), image, 0o644)
	}
	for _, name := range wanted {
		if err := visit(name, "the VM"); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// readModule returns the ELF image of a module file, which newer kernel packages compress.
func readModule(ctx context.Context, file string) ([]byte, error) {
	switch filepath.Ext(file) {
	case ".xz":
		return decompress(ctx, "xz", file)
	case ".zst":
		return decompress(ctx, "zstd", file)
	}
	return os.ReadFile(file)
}

func decompress(ctx context.Context, tool, file string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, tool, "-dcq", file).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -dc %s: %w (apt-get install xz-utils zstd)", tool, filepath.Base(file), err)
	}
	return out, nil
}

// depends reads the module's own list of modules it needs, from section .modinfo: strings
// key=value, each ended by NUL. depmod computes the same from symbols.
func depends(image []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	return parseDepends(info), nil
}

func parseDepends(info []byte) []string {
	var deps []string
	for field := range strings.SplitSeq(string(info), "\x00") {
		list, ok := strings.CutPrefix(field, "depends=")
		if !ok || list == "" {
			continue
		}
		for d := range strings.SplitSeq(list, ",") {
			deps = append(deps, strings.ReplaceAll(d, "-", "_"))
		}
	}
	return deps
}
