// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package fakeverbs runs programs against an RDMA device that doesn't exist: a model of a ConnectX adapter
// behind a model of its kernel driver. The programs are unmodified and need no privilege and no RDMA in the
// kernel: their calls on the device file are answered here, and the pages by which they ring doorbells are
// shared memory that the model looks at (see internal/usernotif).
//
// So NVIDIA's own user-space library, libmlx5, judges the model: what works here with libmlx5 on one end has
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
