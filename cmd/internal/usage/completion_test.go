// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestCompletion: what a shell is offered are values, and files where one may be meant, each flag with its words of the help alone.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"--json ":      ":0\n",
		"--word ":      "full\nhalf\n:4\n",
		"--word full,": "full,full\nfull,half\n:4\n",
		"--size ":      ":4\n",
		"--number ":    ":4\n",
		"":             "help\tHelp about any command\nread\tRead files\nsub\tDo it\n:4\n",
		"sub ":         ":4\n",
		"read ":        ":0\n",
		"sub --depth ": ":4\n",
		"sub --de":     "--depth\thow far: a number of steps\n:4\n",
		"--js":         "--json\twrite FILE\n:4\n",
		"help ":        "read\tRead files\nsub\tDo it\n:4\n",
	} {
		var out, ignored bytes.Buffer
		run := func(*cobra.Command, []string) {}
		root := &cobra.Command{Use: "prog", Run: run}
		root.CompletionOptions.HiddenDefaultCmd = true
		var size units.Bytes
		root.Flags().Var(&size, "size", "")
		root.Flags().Int("number", 0, "")
		root.Flags().String("json", "", "write `FILE`")
		root.Flags().String("word", "", "")
		sub := &cobra.Command{Use: "sub", Short: "Do it", Run: run}
		sub.Flags().Int("depth", 0, "how far: a `number` of steps")
		root.AddCommand(sub, &cobra.Command{Use: "read FILE", Short: "Read files", Run: run})
		Help(root)
		Filled(root)
		Offer(root, "word", func() []string { return []string{"full", "half"} }, 0)
		Completion(root)
		root.SetOut(&out)
		root.SetErr(&ignored)
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, strings.Split(args, " ")...))
		require.NoError(t, root.Execute())
		require.Equal(t, want, out.String(), "%q", args)
		out.Reset()
		root.SetArgs([]string{"--word", ""})
		require.ErrorAs(t, root.Execute(), new(Error), "checks are made as before")
	}
}
