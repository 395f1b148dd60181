// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
			about:   "gofmt, go mod tidy, go vet, golangci-lint (.golangci.yml), mutexes that comments say are held",
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
			name: "build", budget: 6 * time.Minute, // two on a quiet machine: it compiles the standard library twice
			about: "everything for linux/amd64 and linux/arm64 without cgo",
			run:   crossBuild,
		},
		{
			name: "unit", budget: 14 * time.Minute, // four on a quiet machine, twice that on a processor of 2021
			about:   "go test ./... without cgo",
			needs:   []need{cCompiler, kernelHeaders, python},
			prepare: func(c *stepContext) error { return c.compile([]string{"CGO_ENABLED=0"}, "./...") },
			run:     func(c *stepContext) error { return c.goTest([]string{"CGO_ENABLED=0"}, sideBySide, "./...") },
		},
		{
			name: "race", budget: 20 * time.Minute, // six on a quiet machine, twice that on a processor of 2021
			about:   "go test -race, where goroutines or unsafe pointers can go wrong",
			needs:   []need{cCompiler, kernelHeaders, python},
			prepare: compileRaced,
			run: func(c *stepContext) error {
				return c.goTest([]string{"CGO_ENABLED=1"}, append([]string{"-race", sideBySide}, c.raced...)...)
			},
		},
		{
			name: "wire", budget: time.Minute,
			about: "captures of ours in Wireshark's dissector, checksums against scapy, eBPF objects against their source",
			needs: []need{
				{program: "tshark", packages: []string{"tshark"}},
				{program: "dumpcap", packages: []string{"wireshark-common"}},
				scapy,
				{program: "clang", packages: []string{"clang"}},
				cCompiler,
				{file: "/usr/include/bpf/bpf_helpers.h", packages: []string{"libbpf-dev"}},
			},
			run: func(c *stepContext) error {
				return errors.Join(
					c.goTest([]string{"CGO_ENABLED=0"}, "-tags=wire,clang", "./cmd/internal/pcap", "./dataplane/ebpf"),
					c.goTest([]string{"CGO_ENABLED=0"}, "-tags=wire", "-run=^TestTshark", "./cmd/sdr-switch"))
			},
		},
		{
			name: "fakeverbs", budget: 3 * time.Minute,
			about: "fake mlx5 and rxe devices, judged by Debian's unmodified libmlx5 and librxe",
			needs: []need{
				{program: "ibv_srq_pingpong", packages: []string{"ibverbs-utils"}},
				{program: "ib_atomic_bw", packages: []string{"perftest"}},
				{file: "/etc/libibverbs.d/mlx5.driver", packages: []string{"ibverbs-providers"}},
				{file: "/etc/libibverbs.d/rxe.driver", packages: []string{"ibverbs-providers"}},
				{file: "/usr/include/infiniband/mlx5dv.h", packages: []string{"libibverbs-dev"}},
				cCompiler,
				{file: "/usr/share/doc/rdma-core/tests/run_tests.py", packages: []string{"python3-pyverbs"}},
				scapy,
			},
			run: func(c *stepContext) error {
				// With pages of 64 KiB, as kernels of arm64 have them; step unit has the machine's.
				return c.goTest([]string{"CGO_ENABLED=0", "SDR_FAKEVERBS_PAGE=65536"}, "-run=LibMLX5|LibRXE|BlueFlame", "./test/fakeverbs/...")
			},
		},
		{
			name: "dpa", budget: 6 * time.Minute,
			about: "the packet engine as code for BlueField's DPA, beside the one in Go, in QEMU; its loader on a fake FlexIO",
			needs: []need{
				{program: "riscv64-linux-gnu-gcc", packages: []string{"gcc-riscv64-linux-gnu"}},
				{file: "/usr/riscv64-linux-gnu/lib/libc.a", packages: []string{"libc6-dev-riscv64-cross"}},
				{program: "qemu-riscv64", packages: []string{"qemu-user"}},
				cCompiler,
			},
			run: func(c *stepContext) error {
				return c.goTest([]string{"CGO_ENABLED=0"}, "-tags=dpa,flexio", "./dpa/device/...")
			},
		},
		{
			name: "arm64", budget: 5 * time.Minute, // a third of a minute on two quiet cores, a full one on slower ones
			about: "results of the fabric, bit by bit the same on another architecture, and its stores to mlx5's registers, in QEMU",
			needs: []need{{program: "qemu-aarch64", packages: []string{"qemu-user"}}},
			prepare: func(c *stepContext) error {
				return c.compile([]string{"CGO_ENABLED=0", "GOARCH=arm64"}, placesOnARM64...)
			},
			run: func(c *stepContext) error {
				return c.goTest([]string{"CGO_ENABLED=0", "GOARCH=arm64"},
					append([]string{"-exec=qemu-aarch64", "-run=^(" + onARM64 + ")$"}, placesOnARM64...)...)
			},
		},
		{
			name: "fuzz", budget: 3 * time.Minute,
			about:   "every Fuzz function, the budget divided among them",
			prepare: compileFuzzTargets,
			run:     fuzz,
		},
		{
			name: "grid", budget: 14 * time.Minute, // five on a quiet machine
			about: "a fiftieth of the completion-time grids, in virtual time, against golden values",
			run: func(c *stepContext) error {
				// Collecting garbage seldom saves a tenth of the processor time; results don't depend on it.
				return c.goTest([]string{"CGO_ENABLED=0", "GOGC=800"}, "-tags=grid", "-run=TestGolden", "./test/grid")
			},
		},
		{
			name: "soak", budget: 6 * time.Minute, // four on a quiet machine: a combination that is slow gets two more runs
			about: "the whole stack over real sockets: every fault on for two minutes, and combinations of defaults for two",
			run: func(c *stepContext) error {
				return c.goTest(nil, "./test/soak", "-args", "-soak", "2m", "-matrix", "covering")
			},
		},
	}
	if exists(filepath.Join(root, "test", "peers", "go.mod")) {
		all = append(all, step{
			name: "peers", budget: 3 * time.Minute,
			about: "the benchmark beside TCP, QUIC and SRT, a module of its own: go vet and a short run",
			needs: []need{cCompiler, {file: "/usr/include/srt/srt.h", packages: []string{"libsrt-openssl-dev"}}},
			prepare: func(c *stepContext) error {
				return c.check([]string{"CGO_ENABLED=0"}, "go", "-C", "test/peers", "vet", "./...")
			},
			run: func(c *stepContext) error {
				// One package at a time: each has threads with real-time priority that poll.
				return c.readTests([]string{"CGO_ENABLED=0"}, "go", "-C", "test/peers", "test", "-json", "-count=1", "-p=1", "-timeout=170s", "./...")
			},
		})
	}
	if exists(filepath.Join(root, "test", "vm", "main.go")) {
		all = append(all, vmSteps()...)
	}
	return all
}

// sideBySide has one more package tested at a time than there are processors, because tests wait, too: those of sdr-perf and of the fake
// devices use half of the time of one.
var sideBySide = fmt.Sprintf("-p=%d", runtime.NumCPU()+1)

// onARM64 are the tests of step arm64, in the packages placesOnARM64.
const onARM64 = "TestSameHashWithEveryQueue|TestDCQCNBits|TestSwiftBits|TestArrivalsBits|TestOrderIsTheSameForEveryQueue|TestBurn|TestEveryCounter"

var placesOnARM64 = []string{"./fabric", "./fabric/des", "./fabric/workload", "./congestion", "./verbs/internal/mlx5"}

// vmSteps are the steps in virtual machines.
func vmSteps() []step {
	needs := []need{
		{program: "qemu-system-x86_64", packages: []string{"qemu-system-x86"}},
		{program: "xz", packages: []string{"xz-utils"}},
		{program: "zstd", packages: []string{"zstd"}},
		cCompiler, kernelHeaders,
	}
	// inVM is a step that runs a suite of test/vm. Its preparation fetches kernels and packages, and compiles.
	inVM := func(name string, budget time.Duration, about, suite string, flags ...string) step {
		vm := append([]string{"go", "run", "./test/vm", "-suite", suite}, flags...)
		return step{
			name: name, about: about, budget: budget, needs: needs,
			prepare: func(c *stepContext) error { return c.check(nil, append(slices.Clone(vm), "-prepare")...) },
			run:     func(c *stepContext) error { return c.textTests("test/vm", vm...) },
		}
	}
	return []step{
		inVM("vm", 10*time.Minute, "tests on a stock Debian kernel with Soft-RoCE, in QEMU", "short"),
		inVM("vm-newer", 8*time.Minute, "the same on the newer of the kernels that the VM has", "short", "-kernel", newerKernel),
		inVM("vm-newest", 4*time.Minute, // one and a half on a quiet machine
			"removal of devices, and what else changes between kernels, on the newest kernel that Debian has", "smoke", "-kernel", "newest", "-timeout", "230s"),
		inVM("vm-race", 4*time.Minute, "what several goroutines do with Soft-RoCE devices, under the race detector, in such a VM", "race"),
		inVM("vm-pair", 5*time.Minute, "sdr-perf between two such VMs, over a bad link and beside ib_write_bw", "pair"),
	}
}

// newerKernel is a line of kernels (test/vm -kernel) beside the VM's default, 6.1.
const newerKernel = "6.12"

var (
	cCompiler     = need{program: "gcc", packages: []string{"gcc", "libc6-dev"}}
	scapy         = need{file: "/usr/lib/python3/dist-packages/scapy/contrib/roce.py", packages: []string{"python3-scapy"}}
	python        = need{program: "python3", packages: []string{"python3"}}
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
