// SPDX-License-Identifier: Apache-2.0

package result

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Looking whether a file can be written leaves nothing behind, and what is there as it is; and it finds what writing would.
func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.svg")
	require.NoError(t, CheckWritable("", "-", name, os.DevNull))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)

	require.NoError(t, WriteFile(name, []byte("old")))
	require.NoError(t, CheckWritable(name))
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "old", string(b))
	require.NoError(t, WriteFile(os.DevNull, []byte("gone")))

	for _, bad := range []string{filepath.Join(name, "below"), filepath.Join(dir, "no folder", "x"), dir} {
		require.ErrorContains(t, CheckWritable(bad), bad)
		require.ErrorContains(t, WriteFile(bad, nil), bad)
	}
	left, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
