// SPDX-License-Identifier: Apache-2.0

// Package usagetest checks the help of programs that are made with package usage.
package usagetest

import (
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
