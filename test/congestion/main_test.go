// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A part that is written wrong is not an empty table.
func TestMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		`there is no part "lone"`: {"-only", "incast,lone"},
		"it is unknown":           {"-cc", "reno"},
		"switches write":          {"-cc", "hpcc"},
		"-spacing -1s":            {"-spacing", "-1s"},
		`arguments ["bbr"]`:       {"bbr"},
	} {
		require.ErrorContains(t, run(args), want)
	}
}
