// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sdr-rdma/go-sdr/test/vm/internal/initramfs"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/kernel"
	"github.com/sdr-rdma/go-sdr/test/vm/internal/vmjob"
)

// suiteEntry is one package whose tests a suite runs in the VM.
type suiteEntry struct {
	// pkg is the import path below the module's.
	pkg string
	// full says that the entry belongs to suite full and not to short, bench that it belongs to suite
	// bench, too, pair that it belongs to suite pair alone.
	full, bench, pair bool
	// smoke are the tests that suite smoke runs, as go test -run takes them; empty: none.
	smoke string
	// race are the tests that suite race runs under the race detector; empty: none.
	race string
	// run limits the tests, as go test -run does; empty means all.
	run string
	// args are further arguments of the test binary.
	args []string
	// program says that pkg is a program, which is run with args, instead of tests.
	program bool
	// programs are programs of ours that the tests start, by their path below the module's.
	programs []string
	// packages are Debian packages that the tests use, as they are in the archive.
	packages []string
	// peers are C programs, built with cc against libibverbs: path in the package -> name in the VM.
	peers map[string]string
	// limitSeconds bounds the package's run in the short form; the full one has fullFactor times as long.
	limitSeconds int
}

// clockError is how much faster than real time the guest's clock may run: on a loaded host an
// emulated kernel measures its clock wrongly. The limit of the whole VM is kept by the host.
const clockError = 3

// fullFactor is how much longer the full form of a package's tests may take.
const fullFactor = 5

const modulePath = "github.com/sdr-rdma/go-sdr/"

// rdmaCore are the packages with libibverbs, its rxe provider and ibv_devinfo, and their libraries.
var rdmaCore = []string{"libc6", "libibverbs1", "ibverbs-providers", "ibverbs-utils", "libnl-3-200", "libnl-route-3-200", "libibverbs-dev"}

// perftest are the packages with ib_write_bw, beside rdmaCore.
var perftest = []string{"perftest", "libibumad3", "libpci3", "librdmacm1", "libudev1", "zlib1g"}

// tracer are the packages with strace and its libraries.
var tracer = []string{"strace", "libunwind8", "liblzma5"}

// suite lists what runs in the VM. Build tag rxe marks the tests that need the kernel's rxe; they
// are in no other build, so that a plain go test has nothing to skip.
var suite = []suiteEntry{
	{pkg: "verbs", packages: slices.Concat(rdmaCore, tracer), limitSeconds: 200, smoke: ".",
		race:  "Write|WaitEvent|Events|DeviceRemoved|Forgotten|Close|Resources",
		peers: map[string]string{"testdata/ucpeer.c": "ucpeer"}},
	{pkg: "verbs", full: true, bench: true, run: "^$", args: []string{"-test.bench=UCWriteImm|SharedReceives", "-test.benchtime=1x"},
		packages: slices.Concat(rdmaCore, perftest), limitSeconds: 100,
		peers: map[string]string{"testdata/ucpeer.c": "ucpeer"}},
	{pkg: "backend/uc", limitSeconds: 100, smoke: "Removal|Removed|NoAllocation", race: "TestConformance/(both_directions|revoke_under_fire|wait|close_queue|close_device|sdr_workers)|TestRemov"},
	{pkg: "backend/rc", limitSeconds: 80, smoke: "Lost|Recall|NoAllocation", race: "TestConformance/(revoke_under_fire|close_device|sdr_workers)|Recall"},
	{pkg: "backend/softroce", limitSeconds: 160, smoke: "Removed|Removes|Killed|SelectiveRepeat"},
	{pkg: "dataplane/ebpf", limitSeconds: 20, smoke: "."}, // kernels' verifiers differ
	{pkg: "test/soak", full: true, run: "TestMatrix", args: []string{"-networks=rxe", "-matrix=whole"}, limitSeconds: 120},
	{pkg: "test/vm/perf", pair: true, programs: []string{"cmd/sdr-perf"}, packages: slices.Concat(rdmaCore, perftest), limitSeconds: 200},
	{pkg: "test/vm/perf", full: true, run: "TestSideBySide", programs: []string{"cmd/sdr-perf"},
		packages: slices.Concat(rdmaCore, perftest), limitSeconds: 120},
	{pkg: "examples/verbs-devinfo", program: true, limitSeconds: 20},
	{pkg: "examples/verbs-ucping", program: true, limitSeconds: 20, smoke: "."},
}

func suiteNames() []string {
	return []string{shortSuite, fullSuite, smokeSuite, benchSuite, pairSuite, raceSuite}
}

// shortSuite is what CI runs: all entries but those that are full or of a pair, each with -test.short. fullSuite has all but those of a pair,
// without it and with more time.
const shortSuite, fullSuite = "short", "full"

// raceSuite runs tests under the race detector, whose programs need cgo and so a C compiler here, and the host's C library in the VM.
const raceSuite = "race"

// smokeSuite is for a kernel that nobody has seen before: what changes between kernels, removal above
// all, and that data moves.
const smokeSuite = "smoke"

// benchSuite compares speeds. With -accel count its result doesn't depend on what else the host does.
const benchSuite = "bench"

// suiteTags builds the tests of the VM in.
const suiteTags = "rxe"

// runSuite builds the tests of all entries, runs them in one VM and prints their names and results.
func runSuite(ctx context.Context, c *config) error {
	if !slices.Contains(suiteNames(), c.suite) {
		return fmt.Errorf("no suite %q: there are %s", c.suite, strings.Join(suiteNames(), ", "))
	}
	entries := selectEntries(c.suite, c.run)
	if c.listOnly {
		for _, e := range entries {
			fmt.Println(modulePath + e.pkg)
		}
		return nil
	}
	for _, e := range entries {
		c.packages = append(c.packages, e.packages...)
	}
	slices.Sort(c.packages)
	c.packages = slices.Compact(c.packages)
	p, err := prepare(ctx, c)
	if err != nil {
		return err
	}
	if c.suite == raceSuite && p.kernel.Arch != kernel.AMD64 {
		return fmt.Errorf("suite %s is for kernels of amd64, %s is for %s", raceSuite, c.kernel, p.kernel.Arch)
	}
	dir, err := os.MkdirTemp("", "go-sdr-suite-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &suiteBuild{config: c, prepared: p, dir: dir}
	for _, e := range entries {
		if err := b.add(ctx, e); err != nil {
			return err
		}
	}
	if c.prepare {
		return nil
	}
	return b.run(ctx)
}

// selectEntries are the entries of a suite; those with tests when run chooses among tests.
func selectEntries(name, run string) []suiteEntry {
	var entries []suiteEntry
	for _, e := range suite {
		if e.belongs(name) && (run == "" || !e.program && !e.bench) {
			switch name {
			case smokeSuite:
				e.run = e.smoke
			case raceSuite:
				e.run = e.race
			}
			entries = append(entries, e)
		}
	}
	return entries
}

func (e *suiteEntry) belongs(suite string) bool {
	switch suite {
	case pairSuite:
		return e.pair
	case smokeSuite:
		return e.smoke != ""
	case raceSuite:
		return e.race != ""
	case benchSuite:
		return e.bench
	case fullSuite:
		return !e.pair
	}
	return !e.pair && !e.full
}

// limit is how long the entry may take by the guest's clock, in seconds.
func (e *suiteEntry) limit(suite string) int {
	if suite == fullSuite {
		return clockError * e.limitSeconds * fullFactor
	}
	return clockError * e.limitSeconds
}

// suiteBuild gathers the jobs of a suite.
type suiteBuild struct {
	config   *config
	prepared *prepared
	dir      string
	jobs     []vmjob.Job
	steps    []func(*initramfs.Writer) error
}

// add builds one package's tests and peers.
func (b *suiteBuild) add(ctx context.Context, e suiteEntry) error {
	src, err := packageDir(ctx, modulePath+e.pkg)
	if err != nil {
		return err
	}
	if e.program {
		return b.addProgram(ctx, e)
	}
	for _, pkg := range e.programs {
		if _, err := b.build(ctx, pkg); err != nil {
			return err
		}
	}
	name := strings.ReplaceAll(e.pkg, "/", "_") + ".test"
	progress("building tests of " + e.pkg)
	bin, err := b.binary(name, func(out string) error { return b.buildTests(ctx, e.pkg, out) })
	if err != nil {
		return err
	}
	work := path.Join(workDir, e.pkg)
	b.step(func(a *initramfs.Writer) error {
		if err := a.Program(path.Join(vmjob.BinDir, name), bin, ""); err != nil {
			return err
		}
		a.Dir(work)
		if td := filepath.Join(src, "testdata"); isDir(td) {
			a.Tree(path.Join(work, "testdata"), td, nil)
		}
		return nil
	})
	for source, peer := range e.peers {
		if err := b.addPeer(ctx, filepath.Join(src, source), peer); err != nil {
			return err
		}
	}
	b.jobs = append(b.jobs, vmjob.Job{Name: e.pkg, Argv: append([]string{path.Join(vmjob.BinDir, name)}, e.flags(b.config)...), Dir: work,
		Env: environment(b.config), LimitSeconds: e.limit(b.config.suite)})
	return nil
}

// flags are those of the test binary. What the user chooses to run is chosen from all tests, in place of the entry's own choice.
func (e *suiteEntry) flags(c *config) []string {
	// A test that hangs is to print its goroutines before the job's own limit kills it.
	f := []string{"-test.v", fmt.Sprintf("-test.timeout=%ds", e.limit(c.suite)-10)}
	if c.suite != fullSuite {
		f = append(f, "-test.short")
	}
	if run := cmp.Or(c.run, e.run); run != "" {
		f = append(f, "-test.run="+run)
	}
	return append(f, e.args...)
}

// binary has the go command build a binary into a folder of the cache, where that leaves alone what is as it would be, and
// returns the path of a copy: another run may build its own there meanwhile.
func (b *suiteBuild) binary(name string, build func(out string) error) (string, error) {
	dir := filepath.Join(b.config.cache, "built-"+b.config.suite+"-"+b.prepared.kernel.Arch)
	unlock, err := lockCache(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	kept, private := filepath.Join(dir, name), filepath.Join(b.dir, name)
	if err := build(kept); err != nil {
		return "", err
	}
	data, err := os.ReadFile(kept)
	if err != nil {
		return "", err
	}
	return private, os.WriteFile(private, data, 0o755)
}

// buildTests builds a package's tests.
func (b *suiteBuild) buildTests(ctx context.Context, pkg, bin string) error {
	args := []string{"test", "-c", "-vet=off", "-ldflags=-w", "-tags", suiteTags, "-o", bin, modulePath + pkg}
	if b.config.suite != raceSuite {
		return b.prepared.goTool(ctx, args...)
	}
	err := tool(ctx, []string{"CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64", "GOFLAGS="}, "go", slices.Insert(args, 1, "-race")...)
	if err != nil {
		return fmt.Errorf("build with the race detector: %w (apt-get install gcc libc6-dev)", err)
	}
	return nil
}

// addProgram builds a program that is itself the test.
func (b *suiteBuild) addProgram(ctx context.Context, e suiteEntry) error {
	guest, err := b.build(ctx, e.pkg)
	if err != nil {
		return err
	}
	b.jobs = append(b.jobs, vmjob.Job{Name: e.pkg, Argv: append([]string{guest}, e.args...), Dir: "/", Env: environment(b.config),
		LimitSeconds: e.limit(b.config.suite)})
	return nil
}

// build builds a program and returns its path in the VM.
func (b *suiteBuild) build(ctx context.Context, pkg string) (guest string, err error) {
	progress("building " + pkg)
	bin, err := b.binary(path.Base(pkg), func(out string) error { return b.prepared.goBuild(ctx, out, modulePath+pkg) })
	if err != nil {
		return "", err
	}
	guest = path.Join(vmjob.BinDir, path.Base(pkg))
	b.step(func(a *initramfs.Writer) error { return a.Program(guest, bin) })
	return guest, nil
}

func isDir(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.IsDir()
}

func (b *suiteBuild) step(f func(*initramfs.Writer) error) { b.steps = append(b.steps, f) }

// addPeer compiles a C program against the libibverbs of the unpacked packages, which is also the
// one that it runs with.
func (b *suiteBuild) addPeer(ctx context.Context, source, name string) error {
	root := b.prepared.sysroot
	out := filepath.Join(b.dir, name)
	cc, lib := compiler(b.prepared.kernel.Arch)
	err := tool(ctx, nil, cc, "-O2", "-Wall", "-Werror", "-I"+filepath.Join(root, "usr/include"), "-o", out, source,
		filepath.Join(root, lib, "libibverbs.so.1"), "-Wl,--allow-shlib-undefined")
	if err != nil {
		needs := "gcc libc6-dev linux-libc-dev"
		if b.prepared.kernel.Arch == kernel.ARM64 {
			needs = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
		}
		return fmt.Errorf("build the C peer %s: %w (apt-get install %s)", filepath.Base(source), err, needs)
	}
	b.step(func(a *initramfs.Writer) error { return a.Program(path.Join(vmjob.BinDir, name), out, root, "") })
	return nil
}

// compiler is that of C for an architecture, and where Debian keeps the libraries.
func compiler(arch string) (cc, lib string) {
	if arch == kernel.ARM64 {
		return "aarch64-linux-gnu-gcc", "usr/lib/aarch64-linux-gnu"
	}
	return "cc", "usr/lib/x86_64-linux-gnu"
}

// run boots the VM and reports each package.
func (b *suiteBuild) run(ctx context.Context) error {
	var failed failures
	jobs := bootJobs{
		manifest: vmjob.Manifest{Modules: b.prepared.kernel.Modules, Network: network(b.config), Jobs: b.jobs},
		limit:    b.config.timeout,
		add: func(a *initramfs.Writer) error {
			addPackages(a, b.prepared.sysroot)
			for _, s := range b.steps {
				if err := s(a); err != nil {
					return err
				}
			}
			return nil
		},
		event: failed.event,
	}
	status, err := 0, error(nil)
	if b.config.suite == pairSuite {
		status, err = b.runPair(ctx, jobs)
	} else {
		status, err = boot(ctx, b.config, b.prepared, jobs)
	}
	switch {
	case err != nil:
		return err
	case status != 0:
		progress("FAILED on kernel " + b.prepared.kernel.Release + ": " + failed.String())
		return exitError(1)
	}
	progress(fmt.Sprintf("suite %s passed on kernel %s: %d packages", b.config.suite, b.prepared.kernel.Release, len(b.jobs)))
	return nil
}

// failures gathers the jobs that failed, in one VM or in two.
type failures struct {
	mu   sync.Mutex
	jobs []string // +checklocks:mu
}

// String is a list of them.
func (f *failures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.jobs, ", ")
}

func (f *failures) event(e vmjob.Event) {
	if e.Kind != vmjob.Exit || e.Status == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, strings.TrimSpace(fmt.Sprintf("%s (status %d) %s", e.Job, e.Status, e.Message)))
}
