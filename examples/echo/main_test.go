// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLength: the README shows the program; it is to stay that short.
func TestLength(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(text, []byte("\n")), 40)
}

// TestEcho runs it.
func TestEcho(*testing.T) { main() }
