// SPDX-License-Identifier: Apache-2.0

package main

// An allowedSkip is a test that may be skipped in a step even in CI, with the reason why that
// loses nothing: as a rule, because another step runs it.
type allowedSkip struct {
	step, pkg, test string // pkg is the folder in the module
	why             string
}

// allowedSkips is short on purpose. A skip elsewhere is an install step that is missing.
var allowedSkips = []allowedSkip{
	{"vm", "test/vm", "TestConformance/order", "rxe may overtake between processors; runs on userroce and sim"},
	{"vm", "test/vm", "TestConformance/corruption", "rxe counts no bad checksum; runs on userroce and sim"},
	{"vm", "test/vm", "TestConformance/sdr_workers", "rxe drops what meets no posted receive; runs on userroce"},
}

func findAllowed(allowed []allowedSkip, step, pkg, test string) (why string, ok bool) {
	for _, a := range allowed {
		if a.step == step && a.pkg == pkg && a.test == test {
			return a.why, true
		}
	}
	return "", false
}
