// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A terminal that goes ends the context, and not the program, however often it says so.
func TestStops(t *testing.T) {
	seen := make(chan os.Signal, 2)
	signal.Notify(seen, syscall.SIGHUP) // which nohup may have had ignored
	defer signal.Stop(seen)
	ctx, stop := Stops()
	defer stop()
	require.NoError(t, ctx.Err())
	for range 2 {
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		<-seen
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("nothing has ended")
	}
}
