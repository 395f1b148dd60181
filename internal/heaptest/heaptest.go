// SPDX-License-Identifier: Apache-2.0

// Package heaptest tells tests how much memory lives.
package heaptest

import (
	"runtime"

	"github.com/sdr-rdma/go-sdr/units"
)

// Live is how much of the heap is in use after a collection.
func Live() units.Bytes {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return units.Bytes(m.HeapAlloc)
}
