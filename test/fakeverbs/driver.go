// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "golang.org/x/sys/unix"

// Driver is a driver of rdma-core.
type Driver uint8

// Drivers.
const (
	MLX5 Driver = iota
	RXE
)

var drivers = [...]driver{MLX5: mlx5{}, RXE: rxe{}}

// driver is what a driver has of its own: how a device shows itself, what the kernel's part answers, and where and how requests and
// completions lie in memory. The rest is one for all: objects, states, keys, and the engine that executes requests. Its form of a
// request, of a list of memory and of a completion is mlx5's, which others translate.
type driver interface {
	identity() *identity
	// sysfs adds what the device has below /sys/class besides, in the folders uverbs and ib, and returns symbolic links.
	sysfs(entries map[string]string, uverbs, ib string) (links map[string]string)
	// alloc is the driver's part of ALLOC_UCONTEXT, queryDeviceEx that of QUERY_DEVICE, and command a write command that not all have.
	alloc(*context, *request) unix.Errno
	queryDeviceEx(resp []byte, r *request)
	command(c *context, r *request, cmd uint32) unix.Errno
	// ah answers how requests refer to an address handle.
	ah(a *addressHandle, handle uint32, r *request)
	// cq, srq and qp finish a new object. When they fail, nothing of it is left.
	cq(*completionQueue, *request) unix.Errno
	srq(*sharedQueue, *request) unix.Errno
	qp(*queuePair, *request) unix.Errno
	// caps is struct ib_uverbs_qp_cap as QUERY_QP tells it.
	caps(*queuePair) []byte

	// fetch reads the request sqDone of a send queue, taken tells that sqDone has changed, and reset begins anew.
	fetch(*queuePair) (w workRequest, ok bool)
	taken(*queuePair)
	reset(*queuePair)
	// receive takes the next receive request: what its completion names it by, and its list of memory.
	receive(*queuePair) (id uint64, list []byte, ok bool)
	// write writes a completion, and consume reads into consumed how many the program has read.
	write(*completionQueue, *completion) bool
	consume(*completionQueue)
}

// identity is what a device says it is.
type identity struct {
	id       uint32 // of enum rdma_driver_id
	abi      int
	vendor   uint32
	part     uint32
	firmware uint64
	caps     uint32 // enum ib_device_cap_flags
	atomics  uint32 // enum ib_atomic_cap
	// nullKey is a key for memory that isn't there, 0 when the device has none.
	nullKey uint32
	// file is the size of what a program can map.
	file int
	// methods are those that only its devices have.
	methods map[methodID]method
}
