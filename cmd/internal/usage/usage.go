// SPDX-License-Identifier: Apache-2.0

// Package usage tells a user's mistakes in the call from everything else that goes wrong: programs end with status 2
// for them.
package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Error is a mistake in the call.
type Error struct{ error }

// Unwrap returns what is wrong.
func (e Error) Unwrap() error { return e.error }

// Wrap says that err, which must not be nil, is a mistake in the call.
func Wrap(err error) error { return Error{err} }

// Errorf makes an Error as fmt.Errorf makes an error.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// Args makes the errors of an argument check mistakes in the call.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Error{err}
		}
		return nil
	}
}

// Flags makes the errors of a command's flags, and of those of its subcommands, mistakes in the call.
func Flags(root *cobra.Command) {
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Error{err} })
}

// columns is how wide help is: as terminals are without being asked.
const columns = "80"

// Narrow keeps the flags in the help of a command, and of its subcommands, within 80 columns.
func Narrow(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped "+columns+" "))
}
