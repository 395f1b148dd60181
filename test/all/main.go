// SPDX-License-Identifier: Apache-2.0

// Command all is the one test command of go-sdr:
//
//	go run ./test/all
//
// It installs what the steps need where it may, runs each step within a time budget that it
// enforces, ends every process that it started, and closes with a table and a count. See -help.
//
// Its limits: Linux; installing works with apt and as root or with sudo that asks no password.
// Elsewhere it says what is missing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Exit statuses.
const (
	statusOK     = 0
	statusFailed = 1
	statusUsage  = 2
)

const usage = `Checks everything: style, builds, tests, the race detector, fuzzing, the VM with a real kernel RDMA stack.

  go run ./test/all                  all steps; needs root or sudo once, to install packages
  go run ./test/all -run unit        one step
  go run ./test/all -run 'lint|race' steps whose names match
  go run ./test/all -list            what the steps do, their budgets and the packages they need

Each step has a time budget and is ended with all its processes when that is used up. Preparations
(packages, building tools, compiling) don't count. In the plain "go test ./..." there is
nothing of all this: it works offline, without root.

A skipped test is shown with its reason. With CI=true in the environment, where everything that a
test may need gets installed, a skip is a failure.

Exit status: 0 all passed, 1 something failed, 2 wrong usage. The last line counts tests, and steps
that are no tests (such as lint) as one each.

Flags:
`

func main() {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	ctx, cancel := untilOrphaned(ctx)
	defer cancel()
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	cancel()
	stop()
	os.Exit(status)
}

// untilSignal ends when this process is to end. A reader that is gone is a reason, too: head has seen enough, and Ctrl-C ends tee as
// well. SIGPIPE by default would end this process before its commands are ended and its folder is removed.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

// options are what the flags and the environment say.
type options struct {
	match   *regexp.Regexp
	list    bool
	verbose bool
	ci      bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{ci: os.Getenv("CI") == "true"}
	f := flag.NewFlagSet("all", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	match := f.String("run", "", "only the steps whose names match this `regexp`")
	f.BoolVar(&o.list, "list", false, "list the steps and run nothing")
	f.BoolVar(&o.verbose, "v", false, "print commands, each test, and warnings")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q (steps are chosen with -run)", f.Arg(0))
	} else if o.match, err = regexp.Compile(*match); err != nil {
		err = fmt.Errorf("-run: %w", err)
	}
	if err != nil {
		fmt.Fprintf(stderr, "all: %v; -help tells more\n", err)
	}
	return o, err
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return statusOK
	}
	if err != nil {
		return statusUsage
	}
	root, err := moduleRoot()
	if err != nil {
		fmt.Fprintln(stderr, "all:", err)
		return statusUsage
	}
	plan := selectSteps(steps(root), o.match)
	if len(plan) == 0 {
		fmt.Fprintf(stderr, "all: no step matches %q; there are: %s\n", o.match, names(steps(root)))
		return statusUsage
	}
	if o.list {
		printList(stdout, plan)
		return statusOK
	}
	return runPlan(ctx, plan, newSession(root, o, stdout))
}

func selectSteps(all []step, match *regexp.Regexp) (plan []step) {
	for _, s := range all {
		if match.MatchString(s.name) {
			plan = append(plan, s)
		}
	}
	return plan
}

func names(all []step) string {
	var n []string
	for _, s := range all {
		n = append(n, s.name)
	}
	return strings.Join(n, ", ")
}

// printList keeps to 80 columns.
func printList(w io.Writer, plan []step) {
	const line = "%-9s  %8v  %s\n"
	fmt.Fprintf(w, line, "STEP", "BUDGET", "WHAT IT DOES, AND THE DEBIAN PACKAGES THAT IT NEEDS")
	var total time.Duration
	for _, s := range plan {
		name, budget := s.name, s.budget.String()
		text := fold(s.about, 59)
		if p := s.packages(); len(p) > 0 {
			text = append(text, fold("needs "+strings.Join(p, " "), 59)...)
		}
		for _, t := range text {
			fmt.Fprintf(w, line, name, budget, t)
			name, budget = "", ""
		}
		total += s.budget
	}
	fmt.Fprintf(w, "%-9s  %8v\n", "total", total)
}

// fold breaks a text into lines between its words.
func fold(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}
