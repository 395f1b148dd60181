// SPDX-License-Identifier: Apache-2.0

// Package timerslack lets threads sleep no longer than they ask for.
//
// The kernel ends the sleeps of a thread up to 50 µs late, so that it can end several at once (PR_SET_TIMERSLACK(2const)). At 1 Gbit/s
// that is four packets of 1500 bytes: a sender that is paced sends these together, and a switch has its line idle for as long. Threads of
// real-time priority have no slack.
package timerslack

import (
	"golang.org/x/sys/unix"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

// Remove takes the calling thread's slack away, for one nanosecond is the least that there is. It has an effect on the next call that
// sleeps, for which a goroutine needn't be locked to its thread, and lasts: a later sleep of another goroutine on that thread ends on time,
// too. It costs a system call of some 100 ns. Where the kernel refuses, sleeps stay as they are.
func Remove() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }
