// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal and returns both ends.
func openTerminal(t *testing.T) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { terminal.Close() })
	return master, terminal
}

// played is what a meter writes to out during a long point.
func played(t *testing.T, out, read *os.File) string {
	t.Helper()
	m := newMeter(out)
	m.begun = m.begun.Add(-2 * showAfter)
	m.point("adaptive 64 MiB", func() standing { return standing{part: 0.1} })
	time.Sleep(3 * drawEvery)
	m.clear()
	if m.bar == nil { // it isn't time for a line yet
		m.show(standing{part: 0.1})
	}
	b := make([]byte, 1<<16)
	require.NoError(t, read.SetReadDeadline(time.Now().Add(waitLimit)))
	n, err := read.Read(b)
	require.NoError(t, err)
	return string(b[:n])
}

// TestProgressOnTerminal: a bar is drawn over itself, in no colour, whatever NO_COLOR says (no-color.org).
func TestProgressOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, no := range []string{"", "1"} {
		t.Setenv("NO_COLOR", no)
		master, terminal := openTerminal(t)
		text := played(t, terminal, master)
		require.Contains(t, text, "adaptive 64 MiB", "NO_COLOR=%q", no)
		require.Contains(t, text, "\r")
		require.NotContains(t, text, "\x1b[", "no colour and no cursor")
	}
}

// TestProgressFitsTerminal: what is drawn over itself has room in a line, else the terminal would go on to the next; where there is too
// little room for a bar there are lines.
func TestProgressFitsTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, columns := range []uint16{0, 132, 80, 60, 50, 40, 20} {
		master, terminal := openTerminal(t)
		require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
		text := played(t, terminal, master)
		require.Contains(t, text, "adaptive 64 MiB")
		if columns == 0 { // nobody knows
			columns = 80
		}
		lines := strings.Contains(text, "% done")
		require.Equal(t, columns < 50, lines, "%d columns", columns)
		for drawn := range strings.SplitSeq(text, "\r") {
			require.True(t, lines || utf8.RuneCountInString(drawn) < int(columns), "%d columns: %q", columns, drawn)
		}
	}
}

// TestProgressSaysWhatIsLeft: by how fast it goes while it counts, whatever came before the bar was shown.
func TestProgressSaysWhatIsLeft(t *testing.T) {
	for _, warmup := range []time.Duration{time.Second, showAfter + time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var drawn bytes.Buffer
			m := &meter{begun: time.Now(), out: &drawn, columns: usualColumns}
			m.point("adaptive 64 MiB", func() standing {
				counted := time.Since(m.begun) - warmup
				return standing{warming: counted <= 0, part: max(0, counted.Seconds()/20)}
			})
			time.Sleep(warmup + 5*time.Second)
			m.clear()
			seen := 0
			for _, s := range regexp.MustCompile(`(\d+)%[^\r]*:(\d+)s\]`).FindAllStringSubmatch(drawn.String(), -1) {
				done, err := strconv.ParseFloat(s[1], 64)
				require.NoError(t, err)
				left, err := strconv.ParseFloat(s[2], 64)
				require.NoError(t, err)
				if done > 3 { // it has been heard for half a second
					require.InDelta(t, 20-done/5, left, 4, "%v of warm-up: %q", warmup, s[0])
					seen++
				}
			}
			require.Greater(t, seen, 10)
		})
	}
}

// TestNoAnimationInPipe: what isn't a terminal gets whole lines, and few.
func TestNoAnimationInPipe(t *testing.T) {
	lines := func(text string) {
		require.NotContains(t, text, "\r")
		require.NotContains(t, text, "\x1b")
		require.Equal(t, "sdr-perf: adaptive 64 MiB: 10 % done\n", text)
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	lines(played(t, w, r))
	t.Setenv("TERM", "dumb")
	master, terminal := openTerminal(t)
	lines(strings.ReplaceAll(played(t, terminal, master), "\r\n", "\n")) // the terminal's own line ends
}

// TestOutputIntoPipes: into pipes both ends of a run write lines of plain text only, without control characters.
func TestOutputIntoPipes(t *testing.T) {
	s, to := startServer(t)
	c := start(t, append(to, "-s", "16MiB", "-n", "1", "--warmup", "0", "--rate", "25mbit")...) // 5.4 s
	c.ends(t, waitLimit, 0)
	require.Regexp(t, `(?m)^sdr-perf: adaptive 16 MiB: [1-9][0-9] % done$`, c.errors(), "of one that is under way, too")
	s.ends(t, waitLimit, 0)
	for _, text := range []string{c.stdout.String(), c.errors(), s.stdout.String(), s.errors()} {
		require.NotContains(t, text, "\r")
		require.NotContains(t, text, "\x1b")
	}
}
