// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Offer has shells offer the values of a flag of a command that has only some, also behind the commas of a list.
func Offer(c *cobra.Command, flag string, values func() []string, more cobra.ShellCompDirective) {
	_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
		before := begun[:strings.LastIndexByte(begun, ',')+1] // of a list
		for _, v := range values() {
			all = append(all, before+v)
		}
		return all, cobra.ShellCompDirectiveNoFileComp | more
	})
}

// Completion has shells offer files only where one may be meant: as the value of a flag of text for which nothing else is offered, and as an
// argument of a command that takes some. What it says of flags are their words of the help, without the marks in which pflag finds a value's
// name. It is called once all commands are there and their values have been offered.
func Completion(root *cobra.Command) {
	noFiles(root)
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case cmd.Name() == cobra.ShellCompRequestCmd: // nothing else is called, not even help
			unmark(root)
			return nil
		case before != nil:
			return before(cmd, args)
		}
		return nil
	}
}

func noFiles(cmd *cobra.Command) {
	if cmd.Use == cmd.Name() && cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, offered := cmd.GetFlagCompletionFunc(f.Name); !offered && f.Value.Type() != "string" {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
		}
	})
	for _, sub := range cmd.Commands() {
		noFiles(sub)
	}
}

func unmark(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, sub := range cmd.Commands() {
		unmark(sub)
	}
}
