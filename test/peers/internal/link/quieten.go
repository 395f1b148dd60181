// SPDX-License-Identifier: Apache-2.0

package link

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
)

// A link is no part of the hosts, and load must not delay it: the process that has it and, before
// all, the link's threads in it have real-time priority, if that is allowed.
const (
	ownPriority = 10
	// Priority is what Start is given after Quieten.
	Priority = 20
)

// Quieten keeps this process's own housekeeping out of the link's way: its threads
// never wait for the collector, nor for a place to run Go code at after a system
// call, nor for another thread that holds a lock of Go's runtime and isn't let run.
// They take turns (SCHED_RR): at SCHED_FIFO, two of them that spin on both processors
// wait forever for a third.
// Garbage is collected when the caller says so, between measurements.
func Quieten() {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(8)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads { // those to come take after the one that makes them
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: ownPriority}, 0)
		}
	}
}
