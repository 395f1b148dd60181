// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runFake runs steps that are not the project's, and returns exit status and output.
func runFake(t *testing.T, ctx context.Context, o options, plan ...step) (int, string) {
	var out bytes.Buffer
	status := runPlan(ctx, plan, newSession(t.TempDir(), o, &out))
	return status, out.String()
}

func lastLine(s string) string {
	s = strings.TrimSuffix(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func TestCountAndStatus(t *testing.T) {
	tests := func(passed, failed int, err error) step {
		return step{name: "tests", budget: time.Minute, run: func(c *stepContext) error {
			c.result.passed, c.result.failed = passed, failed
			return err
		}}
	}
	for _, tc := range []struct {
		name   string
		plan   []step
		status int
		last   string
	}{
		{"tests", []step{tests(3, 0, nil), tests(4, 0, nil)}, statusOK, "7 passed, 0 failed"},
		{"a step without tests counts as one", []step{tests(3, 0, nil), tests(0, 0, nil)}, statusOK, "4 passed, 0 failed"},
		{"a failed test", []step{tests(3, 1, nil)}, statusFailed, "3 passed, 1 failed"},
		{"a failure beside the tests", []step{tests(3, 0, errors.New("x"))}, statusFailed, "3 passed, 1 failed"},
		{"an error of failed tests", []step{tests(3, 2, errors.New("x"))}, statusFailed, "3 passed, 2 failed"},
		{"later steps run all the same", []step{tests(0, 0, errors.New("x")), tests(5, 0, nil)}, statusFailed, "5 passed, 1 failed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, out := runFake(t, context.Background(), options{}, tc.plan...)
			require.Equal(t, tc.status, status, out)
			require.Equal(t, tc.last, lastLine(out))
		})
	}
}

// Whoever is shown only the end of a log must find there what failed.
func TestFailuresAreRepeatedAtTheEnd(t *testing.T) {
	_, out := runFake(t, context.Background(), options{},
		step{name: "unit", budget: time.Minute, run: func(c *stepContext) error {
			c.fail("sdr TestX", strings.Repeat("goroutine\n", 1000)+"want 1, got 2\n")
			return nil
		}},
		step{name: "later", budget: time.Minute, run: func(c *stepContext) error { return nil }})
	_, end, found := strings.Cut(out, "STEP ")
	require.True(t, found)
	require.Contains(t, end, "unit: FAIL sdr TestX")
	require.Contains(t, end, "want 1, got 2")
	require.Less(t, strings.Count(end, "\n"), 40)
	require.Equal(t, "1 passed, 1 failed", lastLine(out))
}

func TestAllowedSkipsAreFolded(t *testing.T) {
	const declared = "x.go:1: never (Caps.Virtual)"
	_, out := runFake(t, context.Background(), options{ci: true}, step{name: "unit", budget: time.Minute, run: func(c *stepContext) error {
		c.result.skips = []skip{{"backend/sim", "TestConformance/a", declared}, {"backend/sim", "TestConformance/b", declared}}
		c.result.passed = 1
		return nil
	}})
	require.Contains(t, out, "TestConformance/a, TestConformance/b")
	require.Equal(t, "1 passed, 0 failed", lastLine(out))
}

func TestUnavailableIsNoFailureAndNoTest(t *testing.T) {
	status, out := runFake(t, context.Background(), options{}, step{name: "newest", budget: time.Minute,
		prepare: func(c *stepContext) error { c.result.unavailable = "offline"; return nil },
		run:     vetWithNewestToolchain,
	})
	require.Equal(t, statusOK, status)
	require.Contains(t, out, "not run")
	require.Equal(t, "0 passed, 0 failed", lastLine(out))
}

func TestFailedPreparation(t *testing.T) {
	status, out := runFake(t, context.Background(), options{}, step{name: "x", budget: time.Minute,
		prepare: func(c *stepContext) error { return c.check(nil, "sh", "-c", "echo no such tool; exit 3") },
		run:     func(*stepContext) error { t.Error("must not run"); return nil },
	})
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "no such tool")
	require.Equal(t, "0 passed, 1 failed", lastLine(out))
}

// TestPreparationThatIsEnded: what ends a command shows as a signal only, which tells nobody what to do.
func TestPreparationThatIsEnded(t *testing.T) {
	if !apart(t) {
		return
	}
	defer func(d time.Duration) { prepareLimit = d }(prepareLimit)
	prepareLimit = 100 * time.Millisecond
	slow := step{name: "x", budget: time.Minute, prepare: func(c *stepContext) error { return c.check(nil, "sleep", "60") }}
	status, out := runFake(t, t.Context(), options{}, slow)
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "preparation: over the limit of 100ms; what it has fetched and built is kept, so run it again: sleep 60: ")

	prepareLimit = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	slow.prepare = func(c *stepContext) error {
		time.AfterFunc(10*time.Millisecond, cancel)
		return c.check(nil, "sleep", "60")
	}
	status, out = runFake(t, ctx, options{}, slow)
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "preparation: interrupted\n")
}

func TestSkipIsAFailureInCIOnly(t *testing.T) {
	s := step{name: "unit", budget: time.Minute, run: func(c *stepContext) error {
		c.result.passed = 1
		c.result.skips = []skip{{pkg: "verbs", test: "TestProbe", reason: "no compiler"}}
		return nil
	}}
	status, out := runFake(t, context.Background(), options{}, s)
	require.Equal(t, statusOK, status)
	require.Contains(t, out, "skipped verbs TestProbe: no compiler")

	status, out = runFake(t, context.Background(), options{ci: true}, s)
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "FAIL verbs TestProbe: skipped, which is a failure in CI")
	require.Contains(t, out, "no compiler")
	require.Equal(t, "1 passed, 1 failed", lastLine(out))
}

func TestAllowedSkips(t *testing.T) {
	allowed := []allowedSkip{{"unit", "verbs", "TestOnRxe", "step vm runs it"}}
	why, ok := findAllowed(allowed, "unit", skip{pkg: "verbs", test: "TestOnRxe"})
	require.True(t, ok)
	require.Equal(t, "step vm runs it", why)
	for _, s := range [][3]string{{"vm", "verbs", "TestOnRxe"}, {"unit", "sdr", "TestOnRxe"}, {"unit", "verbs", "TestOnRxe/sub"}} {
		_, ok := findAllowed(allowed, s[0], skip{pkg: s[1], test: s[2]})
		require.False(t, ok, "%v", s)
	}
	_, ok = findAllowed(nil, "unit", skip{"backend/sim", "TestConformance/x/wait", "poll.go:62: sim has a virtual clock (Caps.Virtual): one goroutine"})
	require.True(t, ok, "declared by the device")
	_, ok = findAllowed(nil, "unit", skip{"backend/sim", "TestConformance/x/wait", "poll.go:62: no time"})
	require.False(t, ok)
	_, ok = findAllowed(nil, "unit", skip{"verbs", "TestOther", "(Caps.Virtual)"})
	require.False(t, ok)
	_, ok = findAllowed(nil, "unit", skip{"internal/erasure", "TestX/kernels", "x_test.go:23: this CPU has no AVX-512 with GFNI"})
	require.True(t, ok)
	_, ok = findAllowed(nil, "unit", skip{"sdr", "TestX", "x_test.go:23: this CPU has no AVX-512 with GFNI"})
	require.False(t, ok)
	withoutLibmlx5 := skip{"test/fakeverbs", "TestPingpong/x", "libmlx5_test.go:71: libmlx5 isn't installed: apt-get install ibverbs-providers"}
	_, ok = findAllowed(nil, "unit", withoutLibmlx5)
	require.True(t, ok)
	_, ok = findAllowed(nil, "fakeverbs", withoutLibmlx5)
	require.False(t, ok, "the step that installs it")
	withoutLibmlx5.pkg = "test/fakeverbs/provider"
	_, ok = findAllowed(nil, "race", withoutLibmlx5)
	require.True(t, ok)

	for _, a := range allowedSkips {
		require.NotEmpty(t, a.why, "%v", a)
	}
}

// A step over its budget loses all its processes: those that ignore SIGTERM, and those that
// moved to a session of their own.
func TestOverBudgetKillsEverything(t *testing.T) {
	if !apart(t) {
		return
	}
	dir := t.TempDir()
	const script = `trap "" TERM
setsid sh -c 'trap "" TERM; echo $$ > "$0/detached"; while :; do sleep 0.1; done' "$0" &
sh -c 'echo $$ > "$0/child"; while :; do sleep 0.1; done' "$0" &
echo $$ > "$0/leader"
while :; do sleep 0.1; done`
	defer func(d time.Duration) { grace = d }(grace)
	grace = 100 * time.Millisecond
	start := time.Now()
	status, out := runFake(t, context.Background(), options{}, step{name: "slow", budget: 500 * time.Millisecond,
		run: func(c *stepContext) error { return c.check(nil, "sh", "-c", script, dir) }})
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "over its budget of 500ms")
	require.Less(t, time.Since(start), 10*time.Second)
	requireGone(t, dir, "leader", "child", "detached")
}

func TestInterruptKillsAndSkipsTheRest(t *testing.T) {
	if !apart(t) {
		return
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
			if b, err := os.ReadFile(dir + "/leader"); err == nil && len(b) > 0 {
				cancel()
			}
		}
	}()
	defer cancel()
	status, out := runFake(t, ctx, options{},
		step{name: "first", budget: time.Minute, run: func(c *stepContext) error {
			return c.check(nil, "sh", "-c", `echo $$ > "$0/leader"; sleep 60`, dir)
		}},
		step{name: "second", budget: time.Minute, run: func(*stepContext) error { t.Error("must not run"); return nil }})
	require.Equal(t, statusFailed, status)
	require.Contains(t, out, "interrupted")
	require.Equal(t, "0 passed, 2 failed", lastLine(out))
	requireGone(t, dir, "leader")
}

// What a successful command leaves running is ended too, and said.
func TestLeftoversAreEnded(t *testing.T) {
	if !apart(t) {
		return
	}
	dir := t.TempDir()
	status, out := runFake(t, context.Background(), options{}, step{name: "leaky", budget: time.Minute,
		run: func(c *stepContext) error {
			return c.check(nil, "sh", "-c", `setsid sleep 60 >/dev/null 2>&1 </dev/null & echo $! > "$0/left"; sleep 0.1`, dir)
		}})
	require.Equal(t, statusOK, status, out)
	require.Contains(t, out, "left behind: sleep")
	requireGone(t, dir, "left")
}

func requireGone(t *testing.T, dir string, names ...string) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		require.NoError(t, err)
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "%s is still there", name)
	}
}

func TestTemporaryFolderIsRemoved(t *testing.T) {
	var tmp string
	_, _ = runFake(t, context.Background(), options{}, step{name: "x", budget: time.Minute, run: func(c *stepContext) error {
		tmp = c.tmp
		return c.check(nil, "sh", "-c", `mkdir -p "$TMPDIR/a/b" && touch "$TMPDIR/a/b/c" && chmod 500 "$TMPDIR/a/b"`)
	}})
	require.NotEmpty(t, tmp)
	require.NoDirExists(t, tmp)
}

func TestUsage(t *testing.T) {
	for _, tc := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-help"}, statusOK, "go run ./test/all -run unit"},
		{[]string{"-list"}, statusOK, "race"},
		{[]string{"-run", "nothing"}, statusUsage, "there are: lint"},
		{[]string{"-run", "("}, statusUsage, "-run: error parsing regexp"},
		{[]string{"unit"}, statusUsage, "steps are chosen with -run"},
		{[]string{"-nonsense"}, statusUsage, "-nonsense"},
	} {
		var out bytes.Buffer
		require.Equal(t, tc.status, run(context.Background(), tc.args, &out, &out), "%v", tc.args)
		require.Contains(t, out.String(), tc.want)
	}
}

func TestListKeepsTo80Columns(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, statusOK, run(t.Context(), []string{"-list"}, &out, &out))
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(strings.TrimSuffix(line, "\n")), 80, line)
	}
}
