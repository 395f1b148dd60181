// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestLimitsAreNotCut: the kernel has 32 bits for a limit. One that is negative or has more is refused, and not taken for what is left
// of it.
func TestLimitsAreNotCut(t *testing.T) {
	for _, dev := range []string{devA, rxeA} {
		e := newEnd(t, dev, config{Type: verbs.RC, SRQ: true})
		for _, n := range []int{1<<32 + 8, -1} {
			_, err := e.Ctx.CreateCQ(n, nil)
			require.ErrorContains(t, err, "the device allows 1 to", "%s", dev)
			_, err = e.Ctx.CreateCQVector(16, nil, n&^7)
			require.ErrorContains(t, err, "completion vector", "%s", dev)
			_, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: n, MaxSGE: 1})
			require.Error(t, err, "%s: %d receives", dev, n)
			_, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: n})
			require.Error(t, err, "%s: %d pieces", dev, n)
			require.Error(t, e.SRQ.SetLimit(n), "%s", dev)
			for name, change := range map[string]func(*verbs.QPCap){
				"sends":       func(c *verbs.QPCap) { c.MaxSendWR = n },
				"receives":    func(c *verbs.QPCap) { c.MaxRecvWR = n },
				"send pieces": func(c *verbs.QPCap) { c.MaxSendSGE = n },
				"pieces":      func(c *verbs.QPCap) { c.MaxRecvSGE = n },
				"inline data": func(c *verbs.QPCap) { c.MaxInline = n },
			} {
				attr := verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.RCQ, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}}
				change(&attr.Cap)
				_, err := e.PD.CreateQP(attr)
				require.Error(t, err, "%s: %d %s", dev, n, name)
			}
		}
	}
}
