// SPDX-License-Identifier: Apache-2.0

// Package usage tells a user's mistakes in the call, such as an input that isn't there, for which programs end with status 2, and limits that
// results don't keep, status 3, from everything else that goes wrong. It makes help, and words about progress, too.
package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Error is a mistake in the call.
type Error struct{ error }

// Unwrap returns what is wrong.
func (e Error) Unwrap() error { return e.error }

// Wrap says that err, which must not be nil, is a mistake in the call.
func Wrap(err error) error { return Error{err} }

// Errorf makes an Error as fmt.Errorf makes an error.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// Missed says that all was done, and that a result doesn't keep a limit that it was held to.
type Missed struct{ error }

// Missedf makes a Missed as fmt.Errorf makes an error.
func Missedf(format string, args ...any) error { return Missed{fmt.Errorf(format, args...)} }

// Interrupted is the exit status after an interrupt: 128 and the number of SIGINT, as shells have it.
const Interrupted = 130

// Report says on standard error why program ended, unless err is nil, and returns its exit status: 0, 2 for a mistake in the call, 3 for a
// limit that was missed, 130 for an interrupt, which a context.Canceled is, or 1. After an interrupt it says that, and what else failed of an err that
// joins several.
func Report(program string, err error) int {
	if err == nil {
		return 0
	}
	isInterrupt := errors.Is(err, context.Canceled)
	if isInterrupt {
		err = interrupted(err)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	switch {
	case isInterrupt:
		return Interrupted
	case errors.As(err, new(Error)):
		return 2
	case errors.As(err, new(Missed)):
		return 3
	}
	return 1
}

// interrupted is what to say of err, of which a part is that somebody has interrupted the program.
func interrupted(err error) error {
	if more := apart(err); more != nil {
		return fmt.Errorf("interrupted: %w", more)
	}
	return errors.New("interrupted")
}

// apart is what of errors that were joined is no cancellation.
func apart(err error) error {
	switch joined, isJoined := err.(interface{ Unwrap() []error }); {
	case !errors.Is(err, context.Canceled):
		return err
	case !isJoined || errors.Join(joined.Unwrap()...).Error() != err.Error(): // its words are of one piece
		return nil
	default:
		var more []error
		for _, e := range joined.Unwrap() {
			more = append(more, apart(e))
		}
		return errors.Join(more...)
	}
}

// Execute runs the command that the arguments name, and returns that command. The error is its own, or else the first of writing to
// standard output: what prints a table doesn't look at the error of each line, and a full disk is no success.
func Execute(ctx context.Context, root *cobra.Command) (*cobra.Command, error) {
	out := &output{to: root.OutOrStdout()}
	root.SetOut(out)
	ran, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.err
	}
	return ran, err
}

// An output keeps the first error of writing.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// Args makes the errors of an argument check mistakes in the call, and says what the call is like: cobra takes an argument too many for a
// command, and tells of one too few only how many there are.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		path := cmd.CommandPath()
		none := cobra.NoArgs(cmd, args)
		switch isNone := none != nil && none.Error() == err.Error(); {
		case isNone && cmd.HasSubCommands():
			cmd.SuggestionsMinimumDistance = 2 // letters wrong, which is cobra's default where it suggests by itself
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
			}
			return Errorf("%w: %s --help lists those there are", err, path)
		case isNone:
			return Errorf("unexpected argument %q: %s takes flags alone, %s --help has them", args[0], path, path)
		case strings.Contains(err.Error(), "arg(s)"): // cobra counts
			if len(args) == 0 {
				return Errorf("argument missing: %s; %s --help says more", cmd.UseLine(), path)
			}
			return Errorf("wrong number of arguments, %d: %s; %s --help says more", len(args), cmd.UseLine(), path)
		}
		return Error{err}
	}
}

// Flags makes the errors of a command's flags, and of those of its subcommands, mistakes in the call.
func Flags(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return Error{Unknown(cmd, Number(err))} })
}

// Number says in a person's words what is wrong with the number that a flag was given, where package strconv would be named. Other
// errors it returns as they are.
func Number(err error) error {
	var number *strconv.NumError
	var value *pflag.InvalidValueError
	if !errors.As(err, &number) || !errors.As(err, &value) {
		return err
	}
	upTo := func(most uint64) string { return fmt.Sprintf("a whole number from 0 to %d", most) }
	wanted := map[string]string{
		"uint8": upTo(math.MaxUint8), "uint16": upTo(math.MaxUint16), "uint64": upTo(math.MaxUint64),
		"int": "a whole number", "int64": "a whole number", "float64": "a number, such as 0.5 or 1e-3", "bool": "true or false",
	}[value.GetFlag().Value.Type()]
	switch {
	case wanted == "":
		return err
	case errors.Is(number, strconv.ErrRange) && !strings.HasPrefix(value.GetFlag().Value.Type(), "uint"):
		return fmt.Errorf("--%s %q: it is out of range", value.GetFlag().Name, value.GetValue())
	}
	return fmt.Errorf("--%s %q: write %s", value.GetFlag().Name, value.GetValue(), wanted)
}

// Unknown adds to the error of a flag that cmd doesn't have which of its flags may be meant, or how to see them all. Other errors of flags
// it returns as they are.
func Unknown(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return err
	}
	name := missing.GetSpecifiedName()
	if letters := missing.GetSpecifiedShortnames(); letters != "" { // -drop, as package flag and perftest have it
		name, _, _ = strings.Cut(letters, "=")
	}
	near := nearest(cmd.Flags(), name)
	if len(near) == 0 || len(near) > most {
		return fmt.Errorf("%w: %s --help says what there is", err, cmd.CommandPath())
	}
	return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
}

// most is how many flags are named to who typed one that isn't there: more are no answer.
const most = 3

// nearest returns the visible flags that name begins, or those with the fewest letters wrong: at most one in a name of two letters,
// two, or two that changed places, in a longer one.
func nearest(flags *pflag.FlagSet, name string) []string {
	// Cobra compares names of commands only.
	known := &cobra.Command{}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	name = string(flags.GetNormalizeFunc()(flags, name))
	if len(name) < 2 {
		return nil
	}
	var near []string
	for wrong := 0; wrong <= min(len(name)*2/3, 2) && len(near) == 0; wrong++ {
		known.SuggestionsMinimumDistance = wrong
		near = known.SuggestionsFor(name)
	}
	return near
}

// Columns is how wide help and tables are: as terminals are without being asked.
const Columns = 80

// narrow keeps the flags in the help of a command, and of its subcommands, within 80 columns.
func narrow(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", Columns)))
}
