// SPDX-License-Identifier: Apache-2.0

// Package sdrtest is what package sdr promises on every device, as cases that are run beside those of package
// backendtest, on the same devices:
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, maker, sdrtest.Cases()...)
//	}
//
// Messages of every length find their bytes and nothing around them changes; slots come round; a receive that is
// completed early isn't written to any more; packets that come late harm no newer message; several workers, the mark of
// each channel, and closing under traffic. Those with workers are skipped on devices with a virtual clock.
package sdrtest

import (
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/backend/backendtest"
)

// Cases are the cases of package sdr.
func Cases() []backendtest.Case {
	return []backendtest.Case{
		{Name: "sdr messages", Run: testMessages},
		{Name: "sdr wrap", Run: testWrap},
		{Name: "sdr early completion", Run: testEarlyCompletion},
		{Name: "sdr late packets", Run: testLatePackets},
		{Name: "sdr workers", Run: testWorkers},
		{Name: "sdr marks", Run: testMarks},
		{Name: "sdr close under fire", Run: testCloseEndpoint},
	}
}

// newRand is a source of the same numbers in every run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xbac)) }
