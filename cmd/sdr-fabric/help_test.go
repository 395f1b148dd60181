// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage/usagetest"
)

func TestHelpFits(t *testing.T) { usagetest.HelpFits(t, newRoot()) }

func TestHelpIsOfNoMachine(t *testing.T) { usagetest.HelpIsOfNoMachine(t, newRoot) }

func TestFullDisk(t *testing.T) { usagetest.FullDisk(t, run) }

// TestValues: the tables that packages have of their values are set in columns.
func TestValues(t *testing.T) {
	for _, want := range []string{"      threshold=SIZE[@RATE] control=SIZE\n", "    leafspine:LxHxS[,RATE][,DELAY][,OPTION...]\n", "    bare                      a window"} {
		require.Contains(t, allValues(), want)
	}
}
