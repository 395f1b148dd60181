// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package fakeverbs runs programs against an RDMA device that doesn't exist: a model of a ConnectX adapter, or of Soft-RoCE,
// behind a model of its kernel driver. The programs are unmodified and need no privilege and no RDMA in the
// kernel: their calls on the device file are answered here, and the pages by which they ring doorbells are
// shared memory that the model looks at (see internal/usernotif).
//
// What a driver of rdma-core has of its own is behind one interface (driver.go): the device's identity, the driver's part of calls, and
// where and how requests and completions lie in memory. One engine executes the requests of all, so that devices of different drivers
// write into each other's memory. mlx5 and rxe are there; of rxe, memory windows, invalidations and resizing are not.
//
// So rdma-core's own libraries, NVIDIA's libmlx5 and librxe, judge the model: what works here with libmlx5 on one end has
// the layouts that libmlx5 has. What it can't judge is what libmlx5 does not see: the order in which an
// adapter observes memory, its timing, and what firmware and kernel refuse.
//
// A Host has devices and starts programs. What a device does:
//
//   - contexts, protection domains, memory regions, completion channels and queues, shared receive queues, UD
//     address handles, queue pairs (RC, UC, UD) and their states, events;
//   - memory keys: direct, indirect by KLM and KSM lists, the null key; created by DEVX, changed by UMR;
//   - send, write, read, atomics, with immediate data, inline data and scatter lists, local invalidation;
//   - receiver not ready, retries, dead keys, flushes, and overrun of a completion queue, with the device's
//     error syndromes.
//
// The devices of a host are connected by a wire that loses, doubles and delays what it is told to, or each by the machine's network:
// then UC and UD queue pairs speak RoCEv2 over UDP sockets, with whoever does.
package fakeverbs
