// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command erasure measures the coders of internal/erasure beside Intel's ISA-L,
// in turns on one core, and prints a table in Markdown:
//
//	apt-get install gcc libisal-dev
//	go run ./test/bench/erasure -o docs/results/coding.md
//
// It exits with status 1 when a goal is missed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const usage = `Measures erasure coding beside ISA-L (Debian's libisal-dev), on one core: the table of docs/results/coding.md.

  go run ./test/bench/erasure [flags]

Flags:
`

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	output := flag.String("o", "", "write the table to this file, too")
	rounds := flag.Int("rounds", 15, "measure each case so often; the best round counts")
	core := flag.Int("core", runtime.NumCPU()-1, "run on this core")
	flag.Parse()
	missed, err := run(*output, *rounds, *core)
	if err != nil {
		fmt.Fprintln(os.Stderr, "erasure:", err)
		os.Exit(2)
	}
	if missed > 0 {
		os.Exit(1)
	}
}

func run(output string, rounds, core int) (missed int, err error) {
	if rounds < 1 {
		return 0, fmt.Errorf("-rounds of %d: at least 1 is needed", rounds)
	}
	// The child inherits the core from this thread.
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return 0, fmt.Errorf("core %d: %w", core, err)
	}
	peer, err := startISAL()
	if err != nil {
		return 0, err
	}
	defer peer.close()

	results, err := measureAll(peer, rounds)
	if err != nil {
		return 0, err
	}
	out := io.Writer(os.Stdout)
	if output != "" {
		f, err := os.Create(output)
		if err != nil {
			return 0, err
		}
		defer func() {
			if e := f.Close(); err == nil {
				err = e
			}
		}()
		out = io.MultiWriter(out, f)
	}
	return report(out, results, peer.version, time.Now())
}
