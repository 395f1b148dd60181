// SPDX-License-Identifier: Apache-2.0

// Package release is what all commands have because they are released: a version, and a manual page that follows
// from their own flags and help, as cobra's completions do.
package release

import (
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// next is the release that is being worked on.
const next = "0.2.0"

// pseudo is what Go makes of a commit without a tag: v0.0.0-TIME-COMMIT, v0.1.1-0.TIME-COMMIT behind tag v0.1.0, and
// v0.2.0-rc.1.0.TIME-COMMIT behind v0.2.0-rc.1 (go help modules, "Pseudo-versions").
var pseudo = regexp.MustCompile(`[-.][0-9]{14}-[0-9a-f]{12}$`)

// Version is the release's, such as "0.1.0" or "0.2.0-rc.1", of a program that was built from its tag; else "0.1.0-dev", with the
// commit as a semantic version's build metadata where it is known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return next + "-dev"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	commit, modified := "", false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	v, isTag := strings.CutPrefix(info.Main.Version, "v")
	if isTag && !modified && !strings.Contains(v, "+") && !pseudo.MatchString(v) {
		return v
	}
	switch {
	case commit == "":
		return next + "-dev"
	case modified:
		return next + "-dev+" + commit + ".modified"
	}
	return next + "-dev+" + commit
}

// Register gives a program its version, the command that prints it, and the hidden one that packagers call.
func Register(root *cobra.Command) {
	root.Version = Version()
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: usage.Args(cobra.NoArgs),
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), root.Name(), root.Version) },
	}, &cobra.Command{
		Use: "manual", Short: "Print the manual page in troff's language", Hidden: true, Args: usage.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return WriteManual(c.OutOrStdout(), root) },
	})
}

// Root makes the command of a program that consists of subcommands: without one it shows its help.
func Root(name, short string, sub ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: name, Short: short, SilenceUsage: true, SilenceErrors: true,
		Args: usage.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	usage.Flags(root)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(sub...)
	Register(root)
	usage.Help(root)
	usage.Filled(root)
	usage.Completion(root)
	return root
}
