// SPDX-License-Identifier: Apache-2.0

// Command soak runs the whole stack over real sockets for a while, as go test does for a moment:
//
//	go run ./test/soak -matrix          # every combination of defaults, eight minutes and more
//	go run ./test/soak -for 10m         # every fault at once, every byte checked
//
// TestMatrix configures nothing but sizes: schemes, numbers of workers, one and both ways, over loopback and a
// pair of network namespaces, for which it needs root. No rate may fall. In the VM of test/vm the
// matrix also runs on Soft-RoCE. TestSoak has lost, late, doubled, damaged and cut packets, transfers of all
// sizes both ways, given up at either end, and connections closed in the middle; -seed repeats a run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"
)

const usage = `Runs the whole stack over real sockets for a while, as go test does for a moment.

  go run ./test/soak -matrix [-cell 5s]      every combination of defaults, eight minutes and more
  go run ./test/soak -for 10m [-seed N]      every fault at once, every byte checked

Flags:
`

func main() {
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	matrix := flag.Bool("matrix", false, "run every combination of defaults")
	cell := flag.Duration("cell", 5*time.Second, "how long to run each combination")
	faults := flag.Duration("for", 0, "run with every fault for so long")
	seed := flag.Uint64("seed", 0, "repeat the run with every fault that had this seed")
	flag.Parse()
	if flag.NArg() > 0 || *matrix == (*faults > 0) {
		fmt.Fprintln(os.Stderr, "soak: give either -matrix or -for (-help tells more)")
		os.Exit(2)
	}
	args := []string{"test", "-count=1", "-timeout=0", "-v", "./test/soak"}
	if *matrix {
		args = append(args, "-run=^TestMatrix$", "-args", "-matrix=whole", fmt.Sprint("-cell=", *cell))
	} else {
		args = append(args, "-run=^TestSoak$", "-args", fmt.Sprint("-soak=", *faults), fmt.Sprint("-seed=", *seed))
	}
	c := exec.Command("go", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	err := c.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}
