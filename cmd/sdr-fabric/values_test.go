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

// A table of values is set whole: each line has its entry, none has another's text.
func TestValues(t *testing.T) {
	require.Equal(t, `  --flag:
    none                      nothing; and this goes on where the line was
                              broken in the source
    term[:OPTION,...]         what it means
      a=N b[=N]               an option
    much:longer[,than][,the][,column]
                              says
      a=N b=N
`, values("flag", `none   nothing; and this goes on
               where the line was broken in the source
term[:OPTION,...] what it means
     a=N b[=N]  an option
much:longer[,than][,the][,column]   says
     a=N b=N`))
	for _, want := range []string{"      threshold=SIZE[@RATE] control=SIZE\n", "    leafspine:LxHxS[,RATE][,DELAY][,OPTION...]\n", "    bare                      a window"} {
		require.Contains(t, allValues(), want)
	}
}
