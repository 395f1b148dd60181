// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
)

// complete has shells offer the values of flags that have only some, where they would offer the names of files.
func complete(c *cobra.Command) {
	usage.Offer(c, "reliability", schemes.Names, cobra.ShellCompDirectiveNoSpace)
	usage.Offer(c, "congestion", controls, 0)
	usage.Offer(c, "device", devices.Names, 0)
	usage.Offer(c, "sweep", sweepKeys, cobra.ShellCompDirectiveNoSpace)
	usage.Offer(c, "udp-port", func() []string { return []string{"any"} }, 0)
	c.ValidArgsFunction = cobra.NoFileCompletions // a HOST
}
