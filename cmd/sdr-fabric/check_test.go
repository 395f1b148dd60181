// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	require.NoError(t, checkClosedForms())
	n, events, err := checkSeeds(context.Background(), 1, 20, newMeter(nil, "", 1))
	require.NoError(t, err)
	require.Equal(t, 20, n)
	require.Greater(t, events, uint64(100_000))
}

// TestCheckDrawsAll: check is about each transport that run takes but bare, which a lost packet stops, and about trimming.
func TestCheckDrawsAll(t *testing.T) {
	drawn, trimmed := map[string]bool{}, map[string]bool{}
	for seed := range uint64(500) {
		s := randomScenario(seed)
		name, _, _ := strings.Cut(s.Transport, ":")
		drawn[name] = true
		if trimmed[name] = trimmed[name] || s.Trim != ""; name == "dcp" {
			require.NotEmpty(t, s.Trim, "seed %d", seed)
		}
	}
	for _, name := range []string{"gbn", "irn", "timeout", "racktlp", "mprdma", "dcp", "strack", "uet"} {
		require.True(t, drawn[name], name)
	}
	for _, name := range []string{"timeout", "racktlp", "mprdma", "dcp", "strack", "uet"} {
		require.True(t, trimmed[name], name)
	}
}
