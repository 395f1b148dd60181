// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
)

// An allowedSkip is a test that may be skipped in a step even in CI, with the reason why that
// loses nothing: as a rule, because another step runs it.
type allowedSkip struct {
	step, pkg, test string // pkg is the folder in the module
	why             string
}

// allowedSkips is short on purpose. A skip elsewhere is an install step that is missing.
var allowedSkips = []allowedSkip{
	{"unit", "fabric", "TestReplay", noLists},
}

// noLists: nothing that could be installed would help.
const noLists = "the flow lists of THEMIS's authors lie in a tree under the GPL, not here; TestReplayTwin draws messages by the same law"

// A case of the conformance suite that a device says it can't do, in its Caps or in what its test
// declares of it (Pair.Faults), is skipped by name: nothing that could be installed would run it.
var (
	conformance = "TestConformance/"
	declared    = regexp.MustCompile(`\((Caps\.\w+|Pair\.Faults)\)`)
)

// What the processor lacks can't be installed either. Only the kernels of internal/erasure depend on it;
// the same tests run with the code that every processor has.
const (
	kernels = "internal/erasure"
	lacking = "this CPU has no "
)

// Nor can the right to load eBPF programs, which some containers keep from root, too.
const noBPF = "no right to load eBPF programs"

// What judges test/fakeverbs is rdma-core, which its own step installs.
const (
	fakeverbs    = "test/fakeverbs"
	notInstalled = "isn't installed: apt-get install "
)

func findAllowed(allowed []allowedSkip, step string, s skip) (why string, ok bool) {
	if strings.HasPrefix(s.test, conformance) && declared.MatchString(s.reason) {
		return "the device declares it: " + s.reason, true
	}
	if s.pkg == kernels && strings.Contains(s.reason, lacking) || strings.Contains(s.reason, noBPF) {
		return "nothing to install would help: " + s.reason, true
	}
	if strings.HasPrefix(s.pkg+"/", fakeverbs+"/") && step != "fakeverbs" && strings.Contains(s.reason, notInstalled) {
		return "step fakeverbs runs it", true
	}
	for _, a := range allowed {
		if a.step == step && a.pkg == s.pkg && a.test == s.test {
			return a.why, true
		}
	}
	return "", false
}
