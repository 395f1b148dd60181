// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64) && !race

package provider

import "testing"

func TestPostAndPollDoNotAllocate(t *testing.T) { mlx5.NoAllocation(t) }
