// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A step is one part of the test command. To add one, add it to steps: what it needs installed,
// what it may cost, and the function that does it.
type step struct {
	name   string
	about  string
	budget time.Duration // of run alone
	needs  []need
	// prepare builds tools and whatever else is no test; it doesn't count against the budget. May be nil.
	prepare func(*stepContext) error
	// run reports tests to the stepContext. An error is a failure beside those of tests.
	run func(*stepContext) error
}

// steps are all steps that apply to this source tree, in the order in which they run: what
// fails fast first.
func steps(root string) []step {
	all := []step{
		{
			name: "lint", budget: 2 * time.Minute,
			about:   "gofmt, go vet, golangci-lint (.golangci.yml)",
			prepare: buildLinter,
			run:     lint,
		},
		{
			name: "newest", budget: 4 * time.Minute, // a new release compiles the standard library first
			about:   "go vet with the newest Go release, when it can be had",
			prepare: fetchNewestToolchain,
			run:     vetWithNewestToolchain,
		},
		{
			name: "build", budget: 3 * time.Minute,
			about: "everything for linux/amd64 and linux/arm64 without cgo",
			run:   crossBuild,
		},
		{
			name: "unit", budget: 3 * time.Minute,
			about: "go test ./... without cgo",
			needs: []need{cCompiler, kernelHeaders},
			run:   func(c *stepContext) error { return c.goTest([]string{"CGO_ENABLED=0"}, "./...") },
		},
		{
			name: "race", budget: 8 * time.Minute,
			about: "go test -race ./...",
			needs: []need{cCompiler, kernelHeaders},
			run:   func(c *stepContext) error { return c.goTest([]string{"CGO_ENABLED=1"}, "-race", "./...") },
		},
		{
			name: "wire", budget: time.Minute,
			about: "captures of ours in Wireshark's dissector, checksums against scapy",
			needs: []need{
				{program: "tshark", packages: []string{"tshark"}},
				{file: "/usr/lib/python3/dist-packages/scapy/contrib/roce.py", packages: []string{"python3-scapy"}},
			},
			run: func(c *stepContext) error {
				return c.goTest([]string{"CGO_ENABLED=0"}, "-tags=wire", "./cmd/internal/pcap")
			},
		},
		{
			name: "fuzz", budget: 3 * time.Minute,
			about:   "every Fuzz function, the budget divided among them",
			prepare: compileFuzzTargets,
			run:     fuzz,
		},
		{
			name: "soak", budget: 3 * time.Minute,
			about: "the whole stack over real sockets with every fault on, for two minutes",
			run: func(c *stepContext) error {
				return c.goTest(nil, "./test/soak", "-args", "-soak", "2m")
			},
		},
	}
	if exists(filepath.Join(root, "test", "vm", "main.go")) {
		all = append(all, step{
			name: "vm", budget: 10 * time.Minute,
			about: "tests on a stock Debian kernel with Soft-RoCE, in QEMU",
			needs: []need{
				{program: "qemu-system-x86_64", packages: []string{"qemu-system-x86"}},
				{program: "xz", packages: []string{"xz-utils"}},
				{program: "zstd", packages: []string{"zstd"}},
				cCompiler, kernelHeaders,
			},
			// Fetches kernels and packages, and compiles.
			prepare: func(c *stepContext) error {
				return c.check(nil, "go", "run", "./test/vm", "-suite", "short", "-prepare")
			},
			run: func(c *stepContext) error { return c.textTests("test/vm", "go", "run", "./test/vm", "-suite", "short") },
		})
	}
	return all
}

var (
	cCompiler     = need{program: "gcc", packages: []string{"gcc", "libc6-dev"}}
	kernelHeaders = need{file: "/usr/include/rdma/rdma_user_rxe.h", packages: []string{"linux-libc-dev"}}
)

// packages are the Debian packages of all needs.
func (s step) packages() (all []string) {
	for _, n := range s.needs {
		all = append(all, n.packages...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
