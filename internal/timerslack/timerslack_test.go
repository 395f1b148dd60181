// SPDX-License-Identifier: Apache-2.0

package timerslack

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRemove(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack := func() int {
		n, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		require.NoError(t, err)
		return n
	}
	require.NoError(t, unix.Prctl(unix.PR_SET_TIMERSLACK, 50_000, 0, 0, 0))
	require.Equal(t, 50_000, slack())
	require.Zero(t, testing.AllocsPerRun(10, Remove))
	require.Equal(t, 1, slack())
}
