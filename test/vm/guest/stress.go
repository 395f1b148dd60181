// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"time"
)

// stress is the job with which the runner probes a hypervisor: five seconds of new processes,
// context switches with floating point state, page faults and kernel allocations.
func stress() error {
	end := time.Now().Add(5 * time.Second)
	errs := make(chan error)
	for range 2 {
		go func() {
			var err error
			for err == nil && time.Now().Before(end) {
				err = exec.Command("/proc/self/exe", "touch").Run()
			}
			errs <- err
		}()
	}
	if err := <-errs; err != nil {
		return err
	}
	return <-errs
}

// touch writes 64 MiB of fresh memory and sums it in floating point.
func touch() {
	b := make([]byte, 64<<20)
	sum := 0.5
	for i := 0; i < len(b); i += 512 {
		b[i] = byte(i)
		sum += float64(b[i]) * 1.5
	}
	if sum == 0 {
		os.Exit(1)
	}
}
