// SPDX-License-Identifier: Apache-2.0

// Sdr-perf measures how long reliable writes take: between two hosts, or with both ends in one
// process, over a real network or an emulated long-haul link, with any of the reliability schemes.
//
//	sdr-perf                       # on one host: the receiver
//	sdr-perf -s 1MiB,64MiB HOST    # on another: the sender, which says what is to be measured
//
//	sdr-perf --loopback -s 64MiB --reliability sr --rtt 25ms --rate 1gbit --drop 1e-3
//
// # What is measured
//
// The completion time of a transfer runs from the sender's post, with receives posted and their
// clear-to-send at the sender, to the final acknowledgement at the sender. Warm-up transfers are not
// counted; making and checking the content is not part of the time. Each point, that is a scheme and
// a size, has a connection of its own. Over an emulated link T/ideal compares the average with
// size/rate + RTT, where size is user data: headers take 1.6 % of the rate at an MTU of 4096.
//
// # What it stands on
//
// Packages sdr, reliability and oob, and not sdrnet. A point chooses what an sdrnet.Conn settles for its user: MTU, chunk, unit and
// channels, congestion control, how many connections and transfers are under way, the workers and the device's GID. It posts
// receives before the clock starts, and shows the counters of both ends. What it has in common with sdrnet is what
// that is made of: emulated links (linkemu), the names of schemes (package schemes), and the meeting over TCP (oob).
//
// # JSON
//
// --json writes an array with one object for each point; internal/result says what the fields mean.
//
// The exit status is 0 when all was measured and every content was right, 2 for mistakes in the
// call, 3 when a point fell short of what --min-gbps, --max-p99 and the like ask for or compare found one slower, 130
// after an interrupt (Ctrl-C, SIGTERM, the terminal's end), 1 for anything else. What was measured before a failure or an
// interrupt is printed and written.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// Exit statuses.
const (
	exitFailure     = 1
	exitShort       = 3
	exitUsage       = 2
	exitInterrupted = usage.Interrupted
)

// collectAt is how far the heap grows, in per cent of what lives in it, before it is collected. That is a few MiB, as buffers are no
// part of it, and with Go's 100 it would be collected a hundred times a second while small transfers are measured.
const collectAt = 800

func main() {
	stops, _ := usage.Stops()
	// Whatever an interrupt ends tells the peer so in the same words, not in those of the signal.
	ctx, stop := context.WithCancelCause(context.Background())
	context.AfterFunc(stops, func() { stop(errInterrupted) })
	// A file size limit (ulimit -f) then shows as an error of write, and not as a signal.
	signal.Ignore(syscall.SIGXFSZ)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	os.Exit(run(ctx, os.Args[1:]))
}

// isUsage says whether an error is a mistake in the call.
func isUsage(err error) bool { return errors.As(err, new(usage.Error)) }

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string) int {
	running := false // errors before that are mistakes in the call
	c := newCommand(&running, (*call).run)
	c.SetArgs(translate(args))
	_, err := usage.Execute(ctx, c)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		return usage.Report("sdr-perf", errors.Join(context.Canceled, err))
	}
	fmt.Fprintf(os.Stderr, "sdr-perf: %v\n", err)
	return statusOf(err, running)
}

// statusOf is the exit status after an error that no interrupt caused; running says that the call had been understood.
func statusOf(err error, running bool) int {
	switch {
	case err == nil:
		return 0
	case isUsage(err), !running && !errors.As(err, new(*fs.PathError)): // which help and version get that can't be written
		return exitUsage
	case errors.As(err, new(usage.Missed)):
		return exitShort
	}
	return exitFailure
}
