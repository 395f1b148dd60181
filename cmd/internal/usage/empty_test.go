// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// An empty value of a flag, of any command and in a list, too, is a mistake; a flag that isn't given may be empty.
func TestFilled(t *testing.T) {
	for _, c := range []struct {
		args []string
		bad  bool
	}{
		{args: nil}, {args: []string{"--file", "x", "--list", "a,b", "--times", "x"}}, {args: []string{"sub"}},
		{[]string{"--file", ""}, true}, {[]string{"--file="}, true}, {[]string{"--list", ""}, true}, {[]string{"--list", "a,,b"}, true},
		{[]string{"--times", "x", "--times", ""}, true}, {[]string{"sub", "--depth="}, true},
	} {
		run := func(*cobra.Command, []string) {}
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, Run: run}
		root.Flags().String("file", "", "")
		root.Flags().StringSlice("list", nil, "")
		root.Flags().StringArray("times", nil, "")
		sub := &cobra.Command{Use: "sub", Run: run}
		sub.Flags().String("depth", "", "")
		root.AddCommand(sub)
		Filled(root)
		root.SetArgs(append([]string{}, c.args...))
		err := root.Execute()
		if !c.bad {
			require.NoError(t, err, "%q", c.args)
			continue
		}
		require.ErrorAs(t, err, new(Error), "%q", c.args)
		require.ErrorContains(t, err, "its value is empty")
	}
}
