// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file without results is no comparison.
func TestNoResults(t *testing.T) {
	for _, content := range []string{"[]", "null"} {
		file := filepath.Join(t.TempDir(), "none.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := execute(t, "compare", file)
		require.EqualError(t, err, file+": no results")
		require.Equal(t, 2, run([]string{"compare", file}))
	}
}

// The JSON of another program, or none, is a mistake in the call.
func TestForeignJSON(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.json")
	_, err := execute(t, "plan", "--samples", "20", "--json", plan)
	require.NoError(t, err)
	predictions, err := os.ReadFile(plan)
	require.NoError(t, err)
	for content, why := range map[string]string{
		string(predictions): "it has predictions of sdr-model plan", `{"version":"0.1.0","config":{}}`: "wanted is an array of results, there is a JSON object",
		"{": "unexpected end of JSON input", "[1]": "wanted is an array of results, there is a JSON number", `[{"version":"x"}]`: "version is a JSON string", `[{"version":1}]`: "result 1 has no reliability",
		`["a"]`: "wanted is an array of results, there is a JSON string",
	} {
		file := filepath.Join(t.TempDir(), "other.json")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		for _, args := range [][]string{{"compare", file}, {"plan", "--from", file}} {
			_, err := execute(t, args...)
			require.ErrorContains(t, err, file+" is not sdr-perf's JSON ("+why)
			require.NotContains(t, err.Error(), "Go ")
			require.Equal(t, 2, run(args))
		}
	}
}
