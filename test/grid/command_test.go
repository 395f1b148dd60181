// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// quick is a point that takes no time to measure.
var quick = []string{"-schemes", "sr", "-sizes", "128KiB", "-scale", "1/1000"}

// command runs grid and returns its exit status and what it writes.
func command(args ...string) (status int, stdout, stderr string) {
	var out, says bytes.Buffer
	status = run(args, &out, &says)
	return status, out.String(), says.String()
}

// TestMistakes: a mistake in the call is found before anything is measured.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{append(quick, "B"), `"B": the grid is chosen by -grid`},
		{append(quick, "-drops", "0", "-json", dir), dir + ": it is a folder"},
		{append(quick, "-drops", "0", "-markdown", filepath.Join(dir, "none", "x.md")), "no such file"},
		{append(quick, "-drops", "5"), "-drops: 5: from 0 to below 1"},
		{append(quick, "-drops", "NaN"), "-drops: NaN: from 0 to below 1"},
		{append(quick, "-sizes", "0"), "-sizes: 0: at least one byte"},
		{[]string{"-from", file("perf.json", `[{"version":1,"device":"userroce","link":null}]`)}, "perf.json: result 1 isn't of this program"},
		{[]string{"-from", file("null.json", `[null]`)}, "null.json: result 1 isn't of this program"},
		{[]string{"-from", file("object.json", `{}`)}, "object.json: "},
		{[]string{"-from", filepath.Join(dir, "none.json")}, "no such file"},
		{[]string{"-nonsense"}, "-nonsense\nMeasures completion times"},
	} {
		status, out, says := command(c.args...)
		require.NotZero(t, status, "%v", c.args)
		require.Empty(t, out, "%v", c.args)
		require.Contains(t, says, c.says, "%v", c.args)
		require.NotContains(t, says, " of 1, ", "%v measured", c.args)
	}
}

// TestJSONAlone: with -json - there is nothing else on standard output, and -from reads it.
func TestJSONAlone(t *testing.T) {
	status, out, says := command(append(quick, "-drops", "0", "-json", "-")...)
	require.Zero(t, status, says)
	path := filepath.Join(t.TempDir(), "x.json")
	require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
	status, out, says = command("-from", path)
	require.Zero(t, status, says)
	require.Regexp(t, `(?m)^sr +128 KiB +0 +1 +5 `, out)
}

// TestFailureKeepsTheOthers: a point that fails doesn't take those with it that were measured.
func TestFailureKeepsTheOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	status, out, says := command(append(quick, "-drops", "0,0.999999", "-jobs", "1", "-json", path)...) // nobody can connect
	require.Equal(t, 1, status)
	require.Contains(t, says, "grid: A sr, 128 KiB, drop 0.999999")
	require.Regexp(t, `(?m)^sr +128 KiB +0 +1 +5 `, out)
	kept, err := readJSON([]string{path})
	require.NoError(t, err)
	require.Len(t, kept, 1)
}
