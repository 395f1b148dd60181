// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage/usagetest"
)

func TestHelpFits(t *testing.T) { usagetest.HelpFits(t, newRoot()) }

func TestHelpIsOfNoMachine(t *testing.T) { usagetest.HelpIsOfNoMachine(t, newRoot) }

func TestFullDisk(t *testing.T) { usagetest.FullDisk(t, run) }

// TestCompletion: shells offer what there is, and files only where one is read or written.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"plan --fallback ": "missing\nwhole\n:4\n", "figure ": "3\n9\n10\n11\n12\n13\n15\nall\n:4\n", "plan --rate ": ":4\n", "plan ": ":4\n", "plan --json ": ":0\n", "compare ": ":0\n",
	} {
		out, err := execute(t, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		require.NoError(t, err)
		require.Equal(t, want, out, args)
	}
}
