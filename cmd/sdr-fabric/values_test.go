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

// A table of values is set whole: each line has its entry, none has another's text.
func TestValues(t *testing.T) {
	require.Equal(t, `  --flag:
    none                      nothing; and this goes on where the line was
                              broken in the source
    term[:OPTION,...]         what it means
      a=N b[=N]               an option
    much:longer[,than][,the][,column]
                              says
      a=N b=N
`, values("flag", `none   nothing; and this goes on
               where the line was broken in the source
term[:OPTION,...] what it means
     a=N b[=N]  an option
much:longer[,than][,the][,column]   says
     a=N b=N`))
	for _, want := range []string{"      threshold=SIZE[@RATE] control=SIZE\n", "    leafspine:LxHxS[,RATE][,DELAY][,OPTION...]\n", "    bare                      a window"} {
		require.Contains(t, allValues(), want)
	}
}
