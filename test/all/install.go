// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// A need is something that must be installed: a program in PATH or a file, and the Debian
// packages that bring it.
type need struct {
	program  string
	file     string
	packages []string
}

func (n need) there() bool {
	if n.program != "" {
		_, err := exec.LookPath(n.program)
		return err == nil
	}
	return exists(n.file)
}

func (n need) String() string { return n.program + n.file }

func missing(needs []need) (what, packages []string) {
	for _, n := range needs {
		if !n.there() {
			what = append(what, n.String())
			packages = append(packages, n.packages...)
		}
	}
	slices.Sort(packages)
	return what, slices.Compact(packages)
}

// install brings what is missing, with apt-get and when it may.
func (c *stepContext) install(needs []need) error {
	what, packages := missing(needs)
	if len(what) == 0 {
		return nil
	}
	become, err := c.becomeRoot()
	if err != nil {
		return fmt.Errorf("%s missing: %w; install %s", strings.Join(what, ", "), err, strings.Join(packages, " "))
	}
	c.printf("%s: installs %s", c.name, strings.Join(packages, " "))
	apt := func(args ...string) error {
		return c.check([]string{"DEBIAN_FRONTEND=noninteractive"},
			slices.Concat(become, []string{"apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120"}, args)...)
	}
	// A source that doesn't answer need not be the one that has these packages.
	updateErr := apt("update")
	if err := apt(slices.Concat([]string{"install", "--no-install-recommends"}, packages)...); err != nil {
		return errors.Join(err, updateErr)
	}
	if what, _ := missing(needs); len(what) > 0 {
		return fmt.Errorf("%s still missing after the installation of %s", strings.Join(what, ", "), strings.Join(packages, " "))
	}
	return nil
}

// becomeRoot is what to put before a command so that it runs as root.
func (c *stepContext) becomeRoot() ([]string, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("this host has no apt-get")
	}
	if os.Geteuid() == 0 {
		return nil, nil
	}
	if _, err := c.output(nil, "sudo", "-n", "true"); err != nil {
		return nil, errors.New("this user is not root and sudo wants a password or is missing")
	}
	return []string{"sudo", "-n"}, nil
}
