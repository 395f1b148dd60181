// SPDX-License-Identifier: Apache-2.0

package release

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	at := func(version, revision, modified string) string {
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		if revision != "" {
			info.Settings = []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
		}
		return versionOf(info)
	}
	const commit = "0123456789abcdef0123"
	require.Equal(t, "0.1.0", at("v0.1.0", commit, "false"))
	require.Equal(t, "0.2.3", at("v0.2.3", "", ""), "go install of a release")
	require.Equal(t, "0.2.0-rc.1", at("v0.2.0-rc.1", commit, "false"))
	require.Equal(t, "0.2.0-dev+0123456789ab.modified", at("v0.1.0+dirty", commit, "true"))
	for _, base := range []string{"v0.0.0-", "v0.1.1-0.", "v0.2.0-rc.1.0."} {
		require.Equal(t, "0.2.0-dev+0123456789ab", at(base+"20261123033126-0123456789ab", commit, "false"))
	}
	require.Equal(t, "0.2.0-dev", at("(devel)", "", ""))
	require.Equal(t, "0.2.0-dev", at("", "", ""))
}

// TestManual: a page has what the help has, and nothing that troff would take for its own.
func TestManual(t *testing.T) {
	root := &cobra.Command{Use: "prog [flags] HOST", Short: "Measure things", Run: func(*cobra.Command, []string) {},
		Long: "Prog measures.\n.it is no request\n\n  kept as\n  it is", Example: "  prog --size 1 C:\\x 'a  b' `c` ^~"}
	root.Flags().IntP("size", "s", 64, "`bytes` of a thing, \"large\" ones too")
	root.Flags().Bool("quiet", false, "say nothing")
	root.Flags().Bool("foreign", false, "not ours")
	require.NoError(t, root.Flags().MarkHidden("foreign"))
	sub := &cobra.Command{Use: "compare A B", Short: "Compare", Run: func(*cobra.Command, []string) {}}
	sub.Flags().String("json", "", "write to `FILE`")
	group := &cobra.Command{Use: "live", Short: "Only holds others"}
	trim := &cobra.Command{Use: "trim", Short: "Trim packets", Run: func(*cobra.Command, []string) {}}
	trim.Flags().String("carry", "", "join `N`")
	group.AddCommand(trim)
	root.AddCommand(sub, group)
	Register(root)
	var b strings.Builder
	require.NoError(t, WriteManual(&b, root))
	for _, want := range []string{
		`.TH "PROG" "1" "" "go-sdr 0.2.0-dev`, "prog \\- Measure things\n", "\\&.it is no request\n", ".nf\n  kept as\n  it is\n.fi\n",
		".TP\n\\fB\\-s\\fR, \\fB\\-\\-size\\fR \\fIbytes\\fR\nbytes of a thing, \"large\" ones too (default 64)\n", "\\fB\\-\\-quiet\\fR\nsay nothing\n",
		".SH \"COMPARE\"\nCompare.\n", "\\-\\-json\\fR \\fIFILE\\fR", ".SH \"VERSION\"\n", "prog live trim", ".SH \"LIVE TRIM\"\nTrim packets.\n", "\\-\\-carry\\fR \\fIN\\fR", "  prog \\-\\-size 1 C:\\ex \\(aqa  b\\(aq \\(gac\\(ga \\(ha\\(ti\n",
		".SH \"EXIT STATUS\"\n.TP\n0\nAll was done.\n", ".TP\n3\nA result doesn\\(aqt keep a limit",
	} {
		require.Contains(t, b.String(), want)
	}
	for _, never := range []string{"foreign", "manual", "completion"} {
		require.NotContains(t, b.String(), never)
	}
}
