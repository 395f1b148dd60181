// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help makes the help of a program of subcommands, which must have been added: within 80 columns, without defaults that are none, and with
// a mistake where somebody asks for help about what isn't there.
func Help(root *cobra.Command) {
	narrow(root)
	hideZeros(root)
	topics(root)
}

// topics makes a mistake in the call of "help" for what is no command, which cobra answers with the root's help and status 0.
func topics(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use: "help [command]", Short: "Help about any command",
		ValidArgsFunction: func(c *cobra.Command, args []string, begun string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
			if cmd, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range cmd.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), begun) {
						all = append(all, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Errorf("unknown help topic %q: %s --help lists the commands there are", strings.Join(args, " "), c.Root().Name())
			}
			cmd.InitDefaultHelpFlag()
			cmd.InitDefaultVersionFlag()
			return cmd.Help()
		},
	})
}

// hideZeros leaves "(default 0 B)" and the like out of the help: what no value means is said in words, or the flag is required.
func hideZeros(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.DefValue, "0 ") {
			f.DefValue = ""
		}
	})
	for _, sub := range cmd.Commands() {
		hideZeros(sub)
	}
}
