// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ctrl-C doesn't wait for what is being done.
func TestInterruptible(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ends := make(chan struct{})
	defer close(ends)
	_, err := Interruptible(ctx, func() (int, error) {
		cancel()
		<-ends
		return 1, nil
	})
	require.ErrorIs(t, err, context.Canceled)
	n, err := Interruptible(t.Context(), func() (int, error) { return 2, nil })
	require.NoError(t, err)
	require.Equal(t, 2, n)
}
