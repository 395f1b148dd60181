// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

// bindToCPU ties the calling goroutine to the worker's processor, if it has one.
// leave gives the thread back as it was.
func (w *worker) bindToCPU() (leave func(), err error) {
	cpus := w.ep.cfg.CPUs
	if len(cpus) == 0 {
		return func() {}, nil
	}
	cpu := cpus[w.engine.ID%len(cpus)]
	var before, set unix.CPUSet
	if cpu >= 0 { // Set takes -1 for processor 63, and panics from -64 on
		set.Set(cpu)
	}
	if set.Count() == 0 { // beyond what the set holds, too
		return nil, fmt.Errorf("%w: there is no processor %d", ErrArgument, cpu)
	}
	runtime.LockOSThread()
	if err = unix.SchedGetaffinity(0, &before); err == nil {
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("tie worker %d to processor %d, which this process may not use or does not exist: %w", w.engine.ID, cpu, err)
	}
	return func() {
		// A thread that stays tied must not serve other goroutines: left
		// locked, it ends with this one.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
