// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContentIsTakenOff: what making the content took of a processor is taken off, and not how long it waited for one.
func TestContentIsTakenOff(t *testing.T) {
	var m cpuMeter
	m.begin()
	m.apart(func() { time.Sleep(50 * time.Millisecond) })
	require.Less(t, m.content, 10*time.Millisecond, "sleeping takes no processor")
	m.apart(func() {
		for begun := threadTime(); threadTime()-begun < 20*time.Millisecond; {
			continue
		}
	})
	require.GreaterOrEqual(t, m.content, 20*time.Millisecond)
}
