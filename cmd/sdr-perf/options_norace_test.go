// SPDX-License-Identifier: Apache-2.0

//go:build !race

package main

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/internal/netnstest"
)

// TestOptionsBetweenNamespaces runs it between two hosts with a cable of MTU 4200, each a network namespace.
func TestOptionsBetweenNamespaces(t *testing.T) {
	a, b := netnstest.Pair(t, 4200)
	runOptions(t, nil, []string{a.V4.String()}, func(server bool, args ...string) (p *process) {
		host := b
		if server {
			host = a
		}
		host.Do(func() { p = start(t, args...) })
		return p
	})
}
