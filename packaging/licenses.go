// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// thirdParty is the file of an archive with the licences of others.
const thirdParty = "THIRD-PARTY-LICENSES"

func printLicenses(ctx context.Context, source string) error {
	text, err := licenses(ctx, source)
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	return err
}

// licenses are the texts that the licences of the modules linked into the programs, and of Go, want to have beside a binary.
func licenses(ctx context.Context, source string) ([]byte, error) {
	goroot, err := output(ctx, source, nil, "go", "env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, dir, _ := strings.Cut(strings.TrimSpace(string(goroot)), "\n")
	linked := []string{"The Go library, " + version + "\t" + dir}
	for _, arch := range architectures {
		args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}"}
		for _, program := range programs {
			args = append(args, "./cmd/"+program)
		}
		out, err := output(ctx, source, buildEnv(arch), "go", args...)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			linked = append(linked, strings.TrimSuffix(line, "\n"))
		}
	}
	slices.Sort(linked[1:])
	var all bytes.Buffer
	for _, module := range slices.Compact(linked) {
		name, dir, _ := strings.Cut(module, "\t")
		if err := appendLicenses(&all, name, dir); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}

// licenseName is what files with terms are called, and folders with several.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents)([.-].*)?$`)

// appendLicenses appends all terms of the module in dir.
func appendLicenses(all *bytes.Buffer, module, dir string) error {
	folder, found := os.DirFS(dir), 0
	for _, pattern := range []string{"*", "*/*"} {
		names, err := fs.Glob(folder, pattern)
		if err != nil {
			return err
		}
		for _, name := range names {
			first, _, _ := strings.Cut(name, "/")
			if info, err := fs.Stat(folder, name); err != nil || info.IsDir() || !licenseName.MatchString(first) {
				continue
			}
			text, err := fs.ReadFile(folder, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(all, "==== %s: %s\n\n%s\n\n", module, name, bytes.TrimSpace(text))
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("%s has no licence in %s, without which nobody may pass it on", module, dir)
	}
	return nil
}
