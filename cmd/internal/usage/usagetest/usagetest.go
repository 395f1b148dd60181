// SPDX-License-Identifier: Apache-2.0

// Package usagetest checks the help of programs that are made with package usage, and what they make of output that is lost.
package usagetest

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// HelpFits requires that the help of a program and of all its subcommands is within 80 columns, as terminals are, and tells of no default
// that is none.
func HelpFits(t *testing.T, cmd *cobra.Command) {
	t.Helper()
	var out strings.Builder
	cmd.SetOut(&out)
	require.NoError(t, cmd.Help())
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, "%s: %s", cmd.CommandPath(), line)
		require.NotRegexp(t, `\(default 0 |\(default: .*\(default `, line)
	}
	for _, sub := range cmd.Commands() {
		HelpFits(t, sub)
	}
}

// HelpIsOfNoMachine requires that the help says the same whatever number of processors there is: manual pages are made of it, on another machine
// than the reader's, and archives of one commit are compared to the byte.
func HelpIsOfNoMachine(t *testing.T, root func() *cobra.Command) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one := strings.Split(allHelp(t, root()), "\n")
	runtime.GOMAXPROCS(3)
	three := strings.Split(allHelp(t, root()), "\n")
	require.Len(t, three, len(one))
	for i := range one {
		require.Equal(t, one[i], three[i])
	}
}

// allHelp is the help of a program and of all its subcommands.
func allHelp(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var out strings.Builder
	cmd.SetOut(&out)
	require.NoError(t, cmd.Help())
	for _, sub := range cmd.Commands() {
		out.WriteString(allHelp(t, sub))
	}
	return out.String()
}

// FullDisk requires that a program ends with status 1 when its output is lost.
func FullDisk(t *testing.T, run func(args []string) int) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	os.Stdout = full
	require.Equal(t, 1, run([]string{"version"}))
}
