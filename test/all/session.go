// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// prepareLimit bounds the preparations of a step: a cold module cache and a slow archive. Tests shorten it.
var prepareLimit = 15 * time.Minute

// A session is one run of the command.
type session struct {
	root    string
	options options
	tmp     string // removed at the end; TMPDIR of all commands
	start   time.Time
	// commands is read-locked by each command that runs. While none does, every child is an orphan.
	commands sync.RWMutex

	mu  sync.Mutex // guards out
	out io.Writer
}

func newSession(root string, o options, out io.Writer) *session {
	return &session{root: root, options: o, out: out, start: time.Now()}
}

// printf prints one line with the time since the start.
func (s *session) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "[%7.1fs] %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// dump prints the output of something that failed.
func (s *session) dump(text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(s.out, "           | %s\n", line)
	}
}

// A result is what became of a step.
type result struct {
	step           step
	err            error
	unavailable    string // why the step could do nothing, where that is no failure
	passed, failed int
	skips          []skip
	failures       []failure
	took           time.Duration
}

// A failure is a test that failed, or a package that ended outside of a test.
type failure struct{ what, output string }

func (r result) ok() bool { return r.err == nil && r.failed == 0 }

func (r result) String() string {
	switch {
	case !r.ok():
		return "FAILED"
	case r.unavailable != "":
		return "not run"
	}
	return "ok"
}

func (r result) note() string {
	switch {
	case r.err != nil:
		return firstLine(r.err.Error())
	case r.unavailable != "":
		return r.unavailable
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// runPlan runs the steps one after another, whatever becomes of the others, and prints the table.
func runPlan(ctx context.Context, plan []step, s *session) int {
	adoptOrphans()
	tmp, err := os.MkdirTemp("", "sdr-test-")
	if err != nil {
		s.printf("no temporary folder: %v", err)
		return statusFailed
	}
	s.tmp = tmp
	defer removeAll(tmp)
	var results []result
	for _, st := range plan {
		if ctx.Err() != nil {
			results = append(results, result{step: st, err: errors.New("not run: interrupted")})
			continue
		}
		results = append(results, s.runStep(ctx, st))
	}
	return s.conclude(results)
}

// removeAll also removes what is read-only, as module caches are.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

func (s *session) runStep(ctx context.Context, st step) result {
	c := &stepContext{session: s, result: &result{step: st}, name: st.name}
	if err := s.prepareStep(ctx, c); err != nil {
		c.result.err = fmt.Errorf("preparation: %w", err)
		s.printf("%s: FAILED in preparation: %v", st.name, err)
		return *c.result
	}
	s.printf("%s: starts (budget %v): %s", st.name, st.budget, st.about)
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, st.budget)
	defer cancel()
	c.ctx = limited
	err := st.run(c)
	c.result.took = time.Since(start)
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	case limited.Err() != nil:
		err = fmt.Errorf("over its budget of %v", st.budget)
	}
	c.result.err = err
	c.judgeSkips()
	s.printf("%s: %v after %.1fs", st.name, c.result, c.result.took.Seconds())
	if err != nil {
		s.dump(err.Error())
	}
	return *c.result
}

func (s *session) prepareStep(ctx context.Context, c *stepContext) error {
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	err := c.install(c.result.step.needs)
	if err == nil && c.result.step.prepare != nil {
		err = c.result.step.prepare(c)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case c.ctx.Err() != nil: // what a command says of that is "signal: terminated"
		return fmt.Errorf("over the limit of %v; what it has fetched and built is kept, so run it again: %w", prepareLimit, err)
	}
	return err
}

// conclude prints the table and the count, and returns the exit status.
func (s *session) conclude(results []result) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out)
	tw := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STEP\tRESULT\tPASSED\tFAILED\tSKIPPED\tTIME\tBUDGET\tNOTE")
	status, passed, failed := statusOK, 0, 0
	for _, r := range results {
		p, f := r.count()
		passed, failed = passed+p, failed+f
		fmt.Fprintf(tw, "%s\t%v\t%d\t%d\t%d\t%.1fs\t%v\t%s\n",
			r.step.name, r, r.passed, r.failed, len(r.skips), r.took.Seconds(), r.step.budget, r.note())
		if !r.ok() {
			status = statusFailed
		}
	}
	tw.Flush()
	s.repeatFailures(results)
	fmt.Fprintf(s.out, "\n%d passed, %d failed\n", passed, failed)
	return status
}

// failureLines bounds what is repeated of a test's output: its last lines say what failed.
const failureLines = 25

// repeatFailures says again what failed, where whoever sees only the end of the log finds it.
func (s *session) repeatFailures(results []result) {
	for _, r := range results {
		for _, f := range r.failures {
			fmt.Fprintf(s.out, "\n%s: FAIL %s\n", r.step.name, f.what)
			lines := strings.Split(strings.TrimRight(f.output, "\n"), "\n")
			for _, line := range lines[max(0, len(lines)-failureLines):] {
				fmt.Fprintf(s.out, "    %s\n", line)
			}
		}
	}
}

// count is the tests of a step; a step that has none, or whose failure is not a test's, counts
// as one test itself.
func (r result) count() (passed, failed int) {
	passed, failed = r.passed, r.failed
	switch {
	case r.err != nil && failed == 0:
		failed++
	case r.ok() && passed == 0 && r.unavailable == "":
		passed++
	}
	return passed, failed
}
