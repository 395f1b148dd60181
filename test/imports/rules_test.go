// SPDX-License-Identifier: Apache-2.0

package imports

import "strings"

const module = "github.com/sdr-rdma/go-sdr"

// A rule says what the packages in some folders may not import. Patterns are as the go command
// writes them: "a/b" is one package, "a/..." also everything below it, "..." everything. Packages
// of this module are named by their folder, with a leading "./".
type rule struct {
	in     []string // the packages the rule is about …
	notIn  []string // … except these
	forbid []string // what they may not import …
	allow  []string // … except these
	why    string
}

// cores are the protocol cores.
var cores = rule{
	in: []string{
		"./reliability/scheme/...", "./reliability/none/...", "./reliability/sr/...", "./reliability/strack/...", "./reliability/ec/...", "./reliability/adaptive/...",
		"./reliability/internal/loss/...",
		"./sdr/internal/control/...", "./internal/netsim/...",
		"./congestion/...", "./transport/...", "./switchfn/...", "./fabric/...",
	},
	forbid: []string{"time", "net/...", "os/...", "sync/...", "syscall/...", "golang.org/x/sys/..."},
	why:    "a protocol core does no I/O, starts no goroutine and reads no clock: now is an argument",
}

var rules = []rule{
	{
		in:     []string{"./sdr/...", "./reliability/...", "./dpa/...", "./internal/bitmap/..."},
		notIn:  []string{"./reliability/schemetest/conntest", "./sdr/sdrtest"}, // the one runs schemes on simulated devices
		forbid: []string{"./backend/...", "./verbs/..."},
		allow:  []string{"./backend"},
		why:    "the SDK runs on any device: it knows the contract, no concrete backend and no verbs",
	},
	{
		in:     []string{"./sdr/sdrtest"},
		forbid: []string{"./backend/...", "./verbs/..."},
		allow:  []string{"./backend", "./backend/backendtest"},
		why:    "the SDK runs on any device: its cases are run by the suite of devices",
	},
	cores,
	{
		in:     []string{"./examples/..."},
		forbid: []string{"./internal/...", "./.../internal/...", "./cmd/...", "./test/..."},
		allow:  []string{"./examples/..."},
		why:    "an example links what a user can link",
	},
	{
		in:     []string{"./fabric/..."},
		forbid: []string{"./..."},
		allow:  []string{"./fabric/...", "./switchfn/...", "./transport/...", "./congestion/...", "./internal/netsim", "./roce", "./operr", "./units"},
		why:    "the simulator hosts transports and switch functions, and is below the SDK and the devices",
	},
	{
		in:     []string{"./congestion/...", "./transport/...", "./switchfn/...", "./reliability/...", "./sdr/..."},
		forbid: []string{"./fabric/..."},
		why:    "what runs in the simulator also runs on real packets, so it does not know the simulator",
	},
	{
		in:     []string{"./transport/..."},
		forbid: []string{"./..."},
		allow:  []string{"./transport/...", "./congestion/...", "./internal/ring", "./roce", "./operr", "./units"},
		why:    "a transport is the core of one NIC: it knows controllers and headers, no fabric and no device",
	},
	{
		in:     []string{"./switchfn/..."},
		forbid: []string{"./..."},
		allow:  []string{"./switchfn/...", "./roce", "./operr", "./units"},
		why:    "a switch function decides about a packet from its header and what the switch tells it",
	},
	{
		in:     []string{"./reliability/..."},
		forbid: []string{"./transport/..."},
		allow:  []string{"./transport", "./transport/strack/..."},
		why:    "of the transports only STrack's core also drives the real stack",
	},
	leaf("./congestion/..."),
	leaf("./fabric/des/..."),
	leaf("./fabric/topo/..."),
	leaf("./fabric/workload/..."),
	leaf("./units/..."),
	leaf("./operr"),
	leaf("./backend"),
	leaf("./roce/..."),
	leaf("./oob/..."),
	leaf("./internal/bitmap/..."),
	leaf("./internal/platform"),
	leaf("./internal/ring"),
	leaf("./internal/signal"),
	leaf("./internal/spare"),
	leaf("./internal/table"),
	{
		in:     []string{"./verbs/..."},
		forbid: []string{"./..."},
		allow:  []string{"./verbs/...", "./internal/platform", "./internal/table", "./operr", "./units", "./roce"},
		why:    "verbs is of use without sdr",
	},
	{
		in:     []string{"./backend/..."},
		forbid: []string{"./sdr/...", "./reliability/...", "./dpa/...", "./oob/..."},
		why:    "a backend is below the SDK",
	},
	{
		in:     []string{"./dpa/..."},
		forbid: []string{"./..."},
		allow:  []string{"./dpa/...", "./backend", "./internal/bitmap", "./internal/table", "./operr", "./units"},
		why:    "imports point one way: cmd, reliability, sdr, dpa, internal/bitmap",
	},
	{
		in:     []string{"./..."},
		notIn:  []string{"./dpa/device/...", "./cmd/...", "./examples/...", "./test/..."},
		forbid: []string{"./dpa/device/...", "github.com/ebitengine/purego/..."},
		why:    "who loads an engine onto a device is the application: nothing else needs C libraries",
	},
	{
		in:     []string{"./sdr/..."},
		forbid: []string{"./reliability/..."},
		why:    "imports point one way: cmd, reliability, sdr, dpa, internal/bitmap",
	},
	{
		in:     []string{"./..."},
		notIn:  []string{"./cmd/...", "./examples/...", "./test/..."},
		forbid: []string{"./cmd/...", "./examples/...", "./test/..."},
		why:    "programs and tests are at the top: nothing imports them",
	},
	{
		in:     []string{"./..."},
		notIn:  []string{"./verbs/internal/...", "./backend/userroce/...", "./test/fakeverbs/internal/...", "./dpa/device/internal/..."},
		forbid: []string{"unsafe"},
		why:    "unsafe stays in the kernel ABI, in the socket layer and in the DPA's loader, beside its size and offset asserts",
	},
	{
		in:     []string{"./test/fakeverbs/..."},
		forbid: []string{"./..."},
		allow:  []string{"./test/fakeverbs/...", "./roce"},
		why:    "the fake device is written against the vendor's layouts, not against ours",
	},
	{
		in:     []string{"./..."},
		forbid: []string{"C"},
		why:    "go-sdr is pure Go and builds with CGO_ENABLED=0",
	},
}

func leaf(folder string) rule {
	return rule{
		in:     []string{folder},
		forbid: []string{"./..."},
		allow:  []string{folder, "./internal/platform", "./operr", "./units"},
		why:    "a leaf imports nothing of go-sdr but units, operr and internal/platform",
	}
}

// broken reports whether pkg, which is a folder with a leading "./", breaks r by importing path.
func (r rule) broken(pkg, path string) bool {
	if rest, ok := strings.CutPrefix(path, module+"/"); ok {
		path = "./" + rest
	}
	return matchAny(r.in, pkg) && !matchAny(r.notIn, pkg) && matchAny(r.forbid, path) && !matchAny(r.allow, path)
}

func matchAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if match(p, path) {
			return true
		}
	}
	return false
}

// match holds for a pattern of rule. A "..." matches whole path elements, also none.
func match(pattern, path string) bool {
	head, tail, found := strings.Cut(pattern, "...")
	if !found {
		return pattern == path
	}
	if strings.TrimSuffix(head, "/") == path && tail == "" {
		return true
	}
	rest, ok := strings.CutPrefix(path, head)
	if !ok {
		return false
	}
	if tail == "" {
		return true
	}
	// The part behind "..." may start at any element.
	tail = strings.TrimPrefix(tail, "/")
	for {
		if match(tail, rest) {
			return true
		}
		_, rest, ok = strings.Cut(rest, "/")
		if !ok {
			return false
		}
	}
}
