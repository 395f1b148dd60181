// SPDX-License-Identifier: Apache-2.0

//go:build lockcount

package reliability_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// lockCalls is how often each function of this module has locked a mutex.
func lockCalls() map[string]uint64 {
	calls := map[string]uint64{}
	for i := range sync.LockSites {
		if s := &sync.LockSites[i]; s.N > 0 {
			f, _ := runtime.CallersFrames([]uintptr{s.PC}).Next()
			if name, ok := strings.CutPrefix(f.Function, "github.com/sdr-rdma/go-sdr/"); ok {
				calls[name] += s.N
			}
		}
	}
	return calls
}

// TestLockOperations says how many times a mutex is locked for a unit sent, over user-space RoCEv2, both sides
// together. It needs the sync package of test/bench/locks, whose command runs it.
func TestLockOperations(t *testing.T) {
	e := overSockets(t, linkemu.Config{}, reliability.Config{}, newSR(t, sr.RTO))
	const n = 256 * units.MiB
	src, dst := e.alloc(t, 0, n), e.alloc(t, 1, n)
	e.move(t, src, dst, n)
	before, sent := lockCalls(), e.conn[0].Stats().Units.Sent
	e.move(t, src, dst, n)
	sent = e.conn[0].Stats().Units.Sent - sent
	after := lockCalls()
	names, all := []string{}, 0.0
	for name := range after {
		after[name] -= before[name]
		all += float64(after[name])
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return int(after[b]) - int(after[a]) })
	t.Logf("%d units of %d bytes sent, %.4f lock operations for each", sent, e.conn[0].Config().Unit, all/float64(sent))
	for _, name := range names {
		if each := float64(after[name]) / float64(sent); each >= 0.0005 {
			t.Logf("%9.4f %s", each, name)
		}
	}
	e.close(t)
}
