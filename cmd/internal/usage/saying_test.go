// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What takes long is told again and again, and nothing after its end.
func TestSaying(t *testing.T) {
	var out strings.Builder
	told := make(chan bool)
	stop := saying(&out, func() string {
		told <- true
		return "work"
	}, time.Nanosecond, time.Nanosecond)
	<-told
	<-told
	go func() {
		for range told { // what is told until stop has been heard
		}
	}()
	stop()
	close(told)
	require.GreaterOrEqual(t, strings.Count(out.String(), "work, 0s so far\n"), 2)
	Saying(io.Discard, nil)() // at once
}
