// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"runtime"
	"runtime/metrics"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// yieldLook is how often whoever runs a worker looks whether another goroutine may need its place, and yieldAlways how often it lets others
	// run in any case: a goroutine that spins on raw system calls would hold up the garbage collector.
	yieldLook   = 250 * units.Microsecond
	yieldAlways = 10 * units.Millisecond
)

// A yielder lets other goroutines run, where that is of use. Go's scheduler wakes a thread to look for work whenever a goroutine yields while one of
// GOMAXPROCS is idle. That thread needs a processor, which may be the peer's, and finds nothing: whatever became ready has long been taken by the idle
// one. So who runs a worker yields only while none is idle, while goroutines wait, or where it has just made others ready.
type yielder struct {
	lookAt, yieldAt units.Instant
	procs           int
	// running and waiting goroutines of the process.
	sched [2]metrics.Sample
}

func newYielder() yielder {
	return yielder{sched: [2]metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"},
	}}
}

// yield lets other goroutines run: always if that is needed, because this goroutine has just made others ready, and otherwise where it is of use.
func (y *yielder) yield(now units.Instant, needed bool) {
	look := now >= y.lookAt
	if look {
		y.lookAt, y.procs = now.Add(yieldLook), runtime.GOMAXPROCS(0)
	}
	if y.procs == 1 || needed || now >= y.yieldAt || look && y.isOfUse() {
		y.yieldAt = now.Add(yieldAlways)
		runtime.Gosched()
	}
}

// isOfUse reports whether goroutines wait, or no place is idle to which one that becomes ready could go.
func (y *yielder) isOfUse() bool {
	metrics.Read(y.sched[:])
	return y.sched[0].Value.Uint64() >= uint64(y.procs) || y.sched[1].Value.Uint64() > 0
}
