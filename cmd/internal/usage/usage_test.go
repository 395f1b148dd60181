// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

// TestUnknownFlags: who mistypes a flag reads which is meant where that is plain, and else how to see them all.
func TestUnknownFlags(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--drp 1", "unknown flag: --drp; did you mean --drop?"},
		{"--dorp=1", "unknown flag: --dorp; did you mean --drop?"},
		{"--reliablity sr", "unknown flag: --reliablity; did you mean --reliability?"},
		{"--rat 1", "unknown flag: --rat; did you mean --rate?"},
		{"--trt 1", "unknown flag: --trt; did you mean --rtt?"},
		{"--dr 1", "unknown flag: --dr; did you mean --drop?"},
		{"--chunk_dorp 1", "unknown flag: --chunk_dorp; did you mean --chunk-drop?"},
		{"-dropp=1", "in -dropp=1; did you mean --drop?"},
		{"-rate=1", "in -rate=1; did you mean --rate?"},
		{"sub --dpoth 1", "unknown flag: --dpoth; did you mean --depth?"},
		{"sub --rtae 1", "unknown flag: --rtae; did you mean --rate or --rtt?"}, // the program's own
		// Too far, too many, or too short to say.
		{"--nonsense", "unknown flag: --nonsense: prog --help says what there is"},
		{"sub --nonsense", "unknown flag: --nonsense: prog sub --help says what there is"},
		{"--re 1", "unknown flag: --re: prog --help says what there is"},
		{"--xy 1", "unknown flag: --xy: prog --help says what there is"},
		{"-z", "in -z: prog --help says what there is"},
		{"--secert 1", "unknown flag: --secert: prog --help says what there is"}, // hidden
		// Several as near.
		{"--min 1", "unknown flag: --min; did you mean --min-gbps or --min-rate?"},
		// Not unknown.
		{"--depth", "unknown flag: --depth: prog --help says what there is"},
		{"sub --depth", "flag needs an argument: --depth"},
	} {
		t.Run(c.args, func(t *testing.T) {
			err := tryFlags(c.args)
			require.True(t, errors.As(err, new(Error)), "%v", err)
			require.True(t, strings.HasSuffix(err.Error(), c.says), "%v", err)
		})
	}
}

// tryFlags calls a program with flags of its own and of a subcommand.
func tryFlags(args string) error {
	root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
	for _, name := range []string{"drop", "chunk-drop", "rate", "rtt", "reliability", "receivers", "repeat", "reorder", "min-gbps", "min-rate", "secret"} {
		root.PersistentFlags().String(name, "", "")
	}
	root.PersistentFlags().Lookup("secret").Hidden = true
	sub := &cobra.Command{Use: "sub", Run: func(*cobra.Command, []string) {}}
	sub.Flags().String("depth", "", "")
	root.AddCommand(sub)
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	Flags(root)
	root.SetArgs(strings.Fields(args))
	return root.Execute()
}

// TestHelp: help is about what there is, within 80 columns, and tells of no default that is none.
func TestHelp(t *testing.T) {
	var out strings.Builder
	run := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "prog", Short: "Measure things", SilenceErrors: true, SilenceUsage: true, Run: run, Args: Args(cobra.NoArgs)}
	group := &cobra.Command{Use: "live", Short: "Holds others"}
	sub := &cobra.Command{Use: "trim", Short: "Trim packets", Run: run}
	var none units.Bytes
	some := 64 * units.KiB
	sub.Flags().Var(&none, "keep", strings.Repeat("bytes that stay ", 6)+"(default: all)")
	sub.Flags().Var(&some, "queue", "bytes that wait")
	group.AddCommand(sub)
	root.AddCommand(group)
	Help(root)
	root.SetOut(&out)

	root.SetArgs([]string{"help", "live", "trim"})
	require.NoError(t, root.Execute())
	require.Contains(t, out.String(), "prog live trim [flags]")
	require.Contains(t, out.String(), "(default 64 KiB)")
	require.NotContains(t, out.String(), "0 B")
	for line := range strings.Lines(out.String()) {
		require.LessOrEqual(t, len(line), 81, line)
	}
	out.Reset()
	for _, args := range []string{"help nonsense", "help live nonsense"} {
		root.SetArgs(strings.Fields(args))
		err := root.Execute()
		require.ErrorAs(t, err, new(Error))
		require.ErrorContains(t, err, "prog --help lists the commands")
		require.Empty(t, out.String())
	}
}

// TestStatus: scripts tell a mistake in the call, a missed limit and a failure apart, whatever they are wrapped in.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{nil, 0}, {errors.New("failed"), 1}, {Errorf("no such flag"), 2}, {Missedf("%d are out of their bounds", 2), 3},
		{fmt.Errorf("figure: %w", Missedf("one is out of its bounds")), 3}, {fmt.Errorf("figure: %w", Wrap(syscall.ENOENT)), 2},
	} {
		require.Equal(t, c.status, Report("prog", c.err), "%v", c.err)
	}
}

// TestInterrupted: an interrupt hides nothing else that went wrong, such as results that can't be written.
func TestInterrupted(t *testing.T) {
	gone, full := context.Canceled, errors.New("write a.json: no space left on device")
	for _, c := range []struct {
		err  error
		says string
	}{
		{gone, "interrupted"},
		{fmt.Errorf("switch soft: %w", gone), "interrupted"},
		{errors.Join(gone, fmt.Errorf("transfer: %w", gone)), "interrupted"},
		{fmt.Errorf("%w: %w", full, gone), "interrupted"}, // why it was given up
		{errors.Join(gone, full), "interrupted: write a.json: no space left on device"},
		{errors.Join(gone, errors.Join(gone, full)), "interrupted: write a.json: no space left on device"},
	} {
		require.EqualError(t, interrupted(c.err), c.says)
		require.Equal(t, Interrupted, Report("prog", c.err))
	}
}

// TestNumbers: who gives a flag what is no number reads what may be written.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--seed -1", `--seed "-1": write a whole number from 0 to 18446744073709551615`},
		{"--count 1.5", `--count "1.5": write a whole number`},
		{"-c x", `--count "x": write a whole number`},
		{"--share half", `--share "half": write a number, such as 0.5 or 1e-3`},
		{"--count 9999999999999999999", `--count "9999999999999999999": it is out of range`},
		{"--share 1e999", `--share "1e999": it is out of range`},
		{"--port 99999", `--port "99999": write a whole number from 0 to 65535`},
		{"--code -1", `--code "-1": write a whole number from 0 to 255`},
		{"--quiet=maybe", `--quiet "maybe": write true or false`},
	} {
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
		root.Flags().Uint64("seed", 0, "")
		root.Flags().IntP("count", "c", 0, "")
		root.Flags().Float64("share", 0, "")
		root.Flags().Uint16("port", 0, "")
		root.Flags().Uint8("code", 0, "")
		root.Flags().Bool("quiet", false, "")
		Flags(root)
		root.SetArgs(strings.Fields(c.args))
		err := root.Execute()
		require.ErrorAs(t, err, new(Error))
		require.EqualError(t, err, c.says)
	}
}

// TestArgs: who gives a command the wrong arguments reads what it takes.
func TestArgs(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"none x", `unexpected argument "x": prog none takes flags alone, prog none --help has them`},
		{"one", "argument missing: prog one FILE [flags]; prog one --help says more"},
		{"one a b", "wrong number of arguments, 2: prog one FILE [flags]; prog one --help says more"},
		{"nonesuch", `unknown command "nonesuch" for "prog": prog --help lists those there are`},
		{"noen", `unknown command "noen" for "prog"; did you mean none?`},
		{"oen", `unknown command "oen" for "prog"; did you mean one?`},
		{"one a", ""},
	} {
		run := func(*cobra.Command, []string) {}
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, Run: run, Args: Args(cobra.NoArgs)}
		root.AddCommand(&cobra.Command{Use: "none", Run: run, Args: Args(cobra.NoArgs)}, &cobra.Command{Use: "one FILE", Run: run, Args: Args(cobra.ExactArgs(1))})
		root.SetArgs(strings.Fields(c.args))
		err := root.Execute()
		if c.says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorAs(t, err, new(Error))
		require.EqualError(t, err, c.says)
	}
}

// TestHelpTopics: help of what is no command is a mistake, also where the program itself takes arguments.
func TestHelpTopics(t *testing.T) {
	for args, says := range map[string]string{
		"help":           "prog does",
		"help sub":       "sub does",
		"help nonsense":  "",
		"help sub extra": "",
	} {
		var out strings.Builder
		root := &cobra.Command{Use: "prog", Short: "prog does", Args: cobra.ArbitraryArgs, SilenceErrors: true, SilenceUsage: true, Run: func(*cobra.Command, []string) {}}
		root.AddCommand(&cobra.Command{Use: "sub", Short: "sub does", Run: func(*cobra.Command, []string) {}})
		topics(root)
		root.SetOut(&out)
		root.SetArgs(strings.Fields(args))
		err := root.Execute()
		if says != "" {
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(out.String(), says), out.String())
			continue
		}
		require.ErrorContains(t, err, "unknown help topic \""+strings.TrimPrefix(args, "help ")+"\": prog --help lists")
		require.True(t, errors.As(err, new(Error)))
		require.Empty(t, out.String())
	}
}

// TestOutputIsLost: a program whose output can't be written fails, although what prints ignores errors, and says which was the first.
func TestOutputIsLost(t *testing.T) {
	own := errors.New("its own")
	for _, fails := range []error{nil, own} {
		root := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, RunE: func(c *cobra.Command, _ []string) error {
			fmt.Fprintln(c.OutOrStdout(), "a table")
			fmt.Fprintln(c.OutOrStdout(), "a second line")
			return fails
		}}
		root.SetArgs(nil)
		root.SetOut(&failing{})
		ran, err := Execute(t.Context(), root)
		require.Same(t, root, ran)
		if fails != nil {
			require.Equal(t, own, err)
			continue
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.False(t, errors.As(err, new(Error)), "no mistake in the call")
	}
	for _, args := range [][]string{{"--help"}, {"help"}} {
		root := &cobra.Command{Use: "prog", Run: func(*cobra.Command, []string) {}}
		root.AddCommand(&cobra.Command{Use: "sub", Run: func(*cobra.Command, []string) {}})
		root.SetArgs(args)
		root.SetOut(&failing{})
		_, err := Execute(t.Context(), root)
		require.ErrorIs(t, err, syscall.ENOSPC, "%v", args)
	}
}

// failing is a disk that was full when it was written to first.
type failing struct{ written bool }

func (f *failing) Write(b []byte) (int, error) {
	if f.written {
		return len(b), nil
	}
	f.written = true
	return 0, syscall.ENOSPC
}
