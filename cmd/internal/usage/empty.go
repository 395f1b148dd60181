// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Filled makes an empty value of a flag of text a mistake in the call, for all commands of a program. It is what a variable that isn't set
// leaves, and would be taken for a flag that isn't there.
func Filled(root *cobra.Command) {
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if err == nil && isEmpty(f.Value) {
				err = Errorf("--%s: its value is empty: give one, or leave the flag out", f.Name)
			}
		})
		return err
	}
}

// isEmpty reports whether a value is no text, or a list with such.
func isEmpty(v pflag.Value) bool {
	if list, ok := v.(pflag.SliceValue); ok {
		all := list.GetSlice()
		return len(all) == 0 || slices.Contains(all, "")
	}
	return v.Type() == "string" && v.String() == ""
}
