// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/internal/verbstest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// rxe says what the kernel's says, but for a local key that is dead, and a receive that is too small: there kernels differ, and the fake
// is as one of them.
var rxe = verbstest.Provider{A: rxeA, B: rxeB, Received: verbstest.Received{Flags: verbs.WCWithGRH}, CQEntries: 3,
	LocalKey: []verbs.WCStatus{verbs.WCLocalProtErr}, ShortReceive: []verbs.WCStatus{verbs.WCRemoteInvalReqErr}}

// TestRXEProvider runs the cases that each provider must pass on Soft-RoCE without a kernel that has it.
func TestRXEProvider(t *testing.T) { rxe.Run(t) }
