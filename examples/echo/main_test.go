// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShown: the README shows the program as it is; it is to stay that short.
func TestShown(t *testing.T) {
	text, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.LessOrEqual(t, bytes.Count(text, []byte("\n")), 40)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	require.Contains(t, string(readme), string(text[bytes.Index(text, []byte("package main")):]))
}

// TestEcho runs it.
func TestEcho(*testing.T) { main() }
