// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/units"
)

// processTime is that of this process, with all its threads, so far.
func processTime() result.CPUTime {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // it can't fail with these arguments
	return result.CPUTime{User: units.Duration(unix.TimevalToNsec(u.Utime)), Sys: units.Duration(unix.TimevalToNsec(u.Stime))}
}

// A cpuMeter measures what an end spends on moving data: making and checking content, which are not part of that,
// are taken off.
type cpuMeter struct {
	begun   result.CPUTime
	content units.Duration
}

// begin starts to measure.
func (m *cpuMeter) begin() { *m = cpuMeter{begun: processTime()} }

// apart runs what isn't to be measured.
func (m *cpuMeter) apart(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := threadTime()
	f()
	m.content += threadTime() - begun
}

// threadTime is the processor's time of this thread so far: wall time would count waits for a processor, too.
func threadTime() units.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // it can't fail with these arguments
	return units.Duration(t.Nano())
}

// ownCPU is what this end tells the other of c. Both ends of a loopback are one process, which the sender counts:
// the receiver says what is to be taken off.
func (pt *point) ownCPU(c result.CPUTime) result.CPUTime {
	if pt.end.local.loopback {
		return result.CPUTime{User: -pt.cpu.content}
	}
	return c
}

// spent is what was spent since begin.
func (m *cpuMeter) spent() result.CPUTime {
	return without(processTime().Since(m.begun), m.content)
}

// without takes content off a process's time. The kernel says exactly what a thread took, and what of a process's was the user's only by
// what it found at its ticks: what the user's part can't give was called the system's.
func without(t result.CPUTime, content units.Duration) result.CPUTime {
	fromUser := min(t.User, content)
	return result.CPUTime{User: t.User - fromUser, Sys: max(0, t.Sys-(content-fromUser))}
}
