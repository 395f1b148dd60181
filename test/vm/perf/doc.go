// SPDX-License-Identifier: Apache-2.0

// Package perf tests sdr-perf on the kernel's Soft-RoCE devices, in two VMs with a cable between them,
// and compares it with perftest's ib_write_bw. Build tag rxe has the tests:
//
//	go run ./test/vm -suite pair
package perf
