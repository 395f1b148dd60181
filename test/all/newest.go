// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/version"
	"runtime"
	"strings"
)

// fetchNewestToolchain finds the newest Go release and lets the go command download it. What can't
// be had here is no failure: a release should not break this command offline.
func fetchNewestToolchain(c *stepContext) error {
	out, err := c.output(nil, "go", "list", "-m", "-versions", "golang.org/toolchain")
	if err != nil {
		c.result.unavailable = "the list of Go releases could not be had: " + firstLine(strings.TrimSpace(out))
		return nil
	}
	newest := newestRelease(strings.Fields(out), runtime.GOOS+"-"+runtime.GOARCH)
	switch {
	case newest == "":
		c.result.unavailable = "the list of Go releases names none for this machine"
		return nil
	case version.Compare(newest, runtime.Version()) <= 0:
		c.result.unavailable = runtime.Version() + " is the newest release"
		return nil
	}
	c.printf("%s: fetches %s", c.name, newest)
	if out, err := c.output([]string{"GOTOOLCHAIN=" + newest}, "go", "version"); err != nil {
		c.result.unavailable = fmt.Sprintf("%s could not be had: %s", newest, firstLine(strings.TrimSpace(out)))
		return nil
	}
	c.toolchain = newest
	return nil
}

func vetWithNewestToolchain(c *stepContext) error {
	if c.toolchain == "" {
		c.printf("%s: not run: %s", c.name, c.result.unavailable)
		return nil
	}
	c.printf("%s: vets with %s", c.name, c.toolchain)
	return c.check([]string{"CGO_ENABLED=0", "GOTOOLCHAIN=" + c.toolchain}, "go", "vet", "./...")
}

// newestRelease picks from versions of golang.org/toolchain, such as
// v0.0.1-go1.27.4.linux-amd64, the newest for a platform that is no beta and no release candidate.
func newestRelease(versions []string, platform string) (newest string) {
	for _, v := range versions {
		v, ok := strings.CutPrefix(v, "v0.0.1-")
		if !ok {
			continue
		}
		v, ok = strings.CutSuffix(v, "."+platform)
		if !ok || !version.IsValid(v) || strings.Contains(v, "rc") || strings.Contains(v, "beta") {
			continue
		}
		if newest == "" || version.Compare(v, newest) > 0 {
			newest = v
		}
	}
	return newest
}
