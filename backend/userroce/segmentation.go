// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/units"
)

// How long a device sends packets one by one before it tries a train again: after the first refusal, and at most.
const (
	firstRetrain = units.Second
	maxRetrain   = 64 * units.Second
)

// segmentation says whether the kernel cuts trains into packets (UDP_SEGMENT). An interface without checksum
// offload refuses trains and takes the same packets one by one; both the interface behind a route and
// its features may change at any time, so a refusal holds for a while only.
type segmentation struct {
	// again is when to try a train again. It is 0 while trains are sent, and units.Never where they never are.
	again atomic.Int64
	// refusals counts the refusals since the last train that the kernel accepted.
	refusals atomic.Uint32
}

// usable reports whether to send trains at now.
func (g *segmentation) usable(now units.Instant) bool {
	at := g.again.Load()
	if at != 0 && units.Instant(at) <= now {
		g.again.CompareAndSwap(at, 0)
		return true
	}
	return at == 0
}

// inUse reports whether trains are sent.
func (g *segmentation) inUse() bool { return g.again.Load() == 0 }

// disable turns trains off for good.
func (g *segmentation) disable() { g.again.Store(int64(units.Never)) }

// refuse turns trains off for a while, which doubles from one refusal to the next.
func (g *segmentation) refuse(now units.Instant) {
	pause := min(firstRetrain<<min(g.refusals.Load(), 16), maxRetrain)
	if g.again.CompareAndSwap(0, int64(now.Add(pause))) {
		g.refusals.Add(1)
	}
}

// passed records that the kernel has accepted a train.
func (g *segmentation) passed() {
	if g.refusals.Load() != 0 {
		g.refusals.Store(0)
	}
}
