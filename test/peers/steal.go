// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"
)

// userHZ is in what part of a second /proc/stat counts (proc(5)).
const userHZ = 100

// stolen is how long in all this machine's processors were kept from it by the one
// that it is a guest of, since it began.
func stolen() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseStolen(string(b))
}

func parseStolen(stat string) time.Duration {
	var user, nice, system, idle, iowait, irq, softirq, steal int64
	if _, err := fmt.Sscanf(stat, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); err != nil {
		return 0
	}
	return time.Duration(steal) * (time.Second / userHZ)
}

// quietWait bounds how long a cell waits for the machine, and quietSample is how long
// nothing must be stolen.
const (
	quietWait   = 15 * time.Second
	quietSample = time.Second
)

// awaitQuiet waits until this machine is let run, or it has waited long enough: other
// guests are busy for half a minute at a time.
func awaitQuiet(ctx context.Context) {
	for end := time.Now().Add(quietWait); time.Now().Before(end) && ctx.Err() == nil; {
		before := stolen()
		time.Sleep(quietSample)
		if !robbed(stolen()-before, quietSample) {
			return
		}
	}
}

// robbed reports whether what was stolen during a transfer is more than it must
// bear: a fiftieth of the processors' time.
func robbed(lost, took time.Duration) bool {
	return lost*50 > took*time.Duration(runtime.NumCPU())
}
