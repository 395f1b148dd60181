// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
)

// complete has shells offer the values of flags that have only some, where they would offer the names of files.
func complete(c *cobra.Command) {
	offer := func(flag string, values func() []string, more cobra.ShellCompDirective) {
		_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, begun string) (all []cobra.Completion, _ cobra.ShellCompDirective) {
			before := begun[:strings.LastIndexByte(begun, ',')+1] // of a list
			for _, v := range values() {
				all = append(all, before+v)
			}
			return all, cobra.ShellCompDirectiveNoFileComp | more
		})
	}
	offer("reliability", schemes.Names, cobra.ShellCompDirectiveNoSpace)
	offer("congestion", controls, 0)
	offer("device", devices.Names, 0)
	offer("sweep", sweepKeys, cobra.ShellCompDirectiveNoSpace)
}
