// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFind: headers that are named must be there; without any the stand-in is taken.
func TestFind(t *testing.T) {
	const name = "libflexio/flexio.h"
	dir := t.TempDir()
	t.Setenv(Variable, dir)
	_, err := Find(name, "ours")
	require.ErrorContains(t, err, Variable+"="+dir)
	require.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, os.Mkdir(filepath.Join(dir, "libflexio"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	got, err := Find(name, "ours")
	require.NoError(t, err)
	require.Equal(t, dir, got)

	t.Setenv(Variable, "")
	got, err = Find("libflexio/none.h", "ours")
	require.NoError(t, err)
	require.Equal(t, "ours", got)
}
