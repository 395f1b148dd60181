// SPDX-License-Identifier: Apache-2.0

// Package uc is a backend.Device on the UC queue pairs of an RDMA device of the kernel, through
// package verbs: no cgo, no libibverbs.
//
//	dev, err := uc.Open(uc.Config{Device: "rxe0"})
//	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
//
// Package softroce opens Soft-RoCE devices through it, and makes them where there are none.
//
// # Data
//
// Each channel and generation of an sdr QP is one UC queue pair, and each packet one RDMA write with
// immediate, at most the path MTU long. A batch of writes is one doorbell; polling, and posting the
// receives that writes with immediate consume, are no system call at all. The receives carry no
// memory. They belong to their queue pair: with a receive queue shared by several, rxe takes one for
// each late packet, and it is no faster (docs/results/performance.md, "Receives shared by queue pairs"). The channel chooses the flow label, and with it the UDP source port, which is
// what switches spread flows by.
//
// # Keys
//
// On devices with indirect memory keys (mlx5 with DEVX) a table has one key for all its messages, and each message has its
// address under it (Caps.RootKey). Expose and StartRevoke change the key by work requests: no call to the kernel, no page is
// pinned. A packet that comes too late is swallowed by the device's null key and completes (backend.DeadKeyCompletes). Whether
// the completion of such a change waits for a packet that is being written is not documented, and has not been measured:
// Caps say backend.FenceTimed.
//
// Elsewhere each message has a key of its own: Expose registers its range, and revoking it is deregistering it.
// Where verbs says that deregistration is a fence (rxe since Linux 6.0) no byte lands after
// Table.Revoked has reported true, not even of a packet whose copy had begun; elsewhere Caps say
// backend.FenceTimed. Registration pins the range anew, in one system call that takes some
// microseconds and, for large messages, time for each page; what is registered counts against the
// memlock limit: a region once, once more for each table whose queue pairs have sent from it, and a message's range while it is exposed.
//
// A write through a dead key is dropped without a trace. Keys are reused only after hundreds of
// thousands of others, but they are 32 bits and no secret. So each table has a protection domain of its own, and its queue pairs are
// in that: a peer that guesses a key reaches what is exposed to itself, and nothing that is exposed to another peer.
//
// # Control
//
// Datagrams travel over one UD queue pair per sdr.Endpoint. Their memory is the device's, 5 MiB of it.
//
// # Limits
//
// The devices are those that package verbs can drive. Most drops are not seen from user space: on rxe,
// Stats().Drops counts what the device took and did not place (Device.Stats), and on other devices nothing. The counters
// of the device itself are in sysfs (hw_counters).
package uc
