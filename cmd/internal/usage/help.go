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
	Narrow(root)
	hideZeros(root)
	root.SetHelpCommand(&cobra.Command{
		Use: "help [command]", Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			about, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Errorf("there is no help about %q: %s --help lists the commands", strings.Join(args, " "), c.Root().Name())
			}
			about.InitDefaultHelpFlag()
			return about.Help()
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
