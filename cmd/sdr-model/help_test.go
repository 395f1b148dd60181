// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// Help is within 80 columns, as terminals are, and tells of no default that is none.
func TestHelpFits(t *testing.T) {
	var all func(cmd *cobra.Command)
	all = func(cmd *cobra.Command) {
		var out strings.Builder
		cmd.SetOut(&out)
		require.NoError(t, cmd.Help())
		for line := range strings.Lines(out.String()) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, "%s: %s", cmd.CommandPath(), line)
			require.NotRegexp(t, `\(default 0 |\(default: .*\(default `, line)
		}
		for _, sub := range cmd.Commands() {
			all(sub)
		}
	}
	all(newRoot())
}
