// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestTwoInputs(t *testing.T) {
	require.NoError(t, TwoInputs("a", "-"))
	require.NoError(t, TwoInputs("-", "a"))
	err := TwoInputs("-", "-")
	require.ErrorContains(t, err, "only one of the two")
	require.ErrorAs(t, err, new(Error))
}

func TestInput(t *testing.T) {
	dir := t.TempDir()
	path, long := filepath.Join(dir, "a"), filepath.Join(dir, "long")
	require.NoError(t, os.WriteFile(path, []byte("of the file"), 0o600))
	require.NoError(t, os.WriteFile(long, nil, 0o600))
	require.NoError(t, os.Truncate(long, int64(maxInput)+1))
	stdin := strings.NewReader("of stdin")
	data, name, err := Input(stdin, path)
	require.NoError(t, err)
	require.Equal(t, []string{"of the file", path}, []string{string(data), name})
	data, name, err = Input(stdin, "-")
	require.NoError(t, err)
	require.Equal(t, []string{"of stdin", "standard input"}, []string{string(data), name})
	_, _, err = Input(iotest.ErrReader(syscall.EIO), "-")
	require.ErrorIs(t, err, syscall.EIO)
	require.False(t, errors.As(err, new(Error)), "no mistake in the call")
	for path, says := range map[string]string{filepath.Join(dir, "none"): "no such file", dir: "is a directory", long: "it has more than 256 MiB"} {
		_, _, err = Input(stdin, path)
		require.ErrorContains(t, err, says)
		require.ErrorAs(t, err, new(Error), "a mistake in the call")
	}
}
