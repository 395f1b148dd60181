// SPDX-License-Identifier: Apache-2.0

// Package verbs is a binding of the Linux RDMA verbs without cgo and without libibverbs: it
// speaks to the kernel's uverbs devices by ioctl and to their queues through mapped memory.
//
// The nouns are those of libibverbs: a [Context] is an open device, a [PD] owns memory regions
// ([MR]), memory windows ([MW]), queue pairs ([QP]), shared receive queues ([SRQ]) and address
// handles ([AH]); completions arrive in a [CQ], which may announce them on a [CompChannel].
//
//	ctx, err := verbs.Open("rxe0")
//	pd, err := ctx.AllocPD()
//	mr, err := pd.RegisterMR(buf, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
//	cq, err := ctx.CreateCQ(256, nil)
//	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64}})
//	err = qp.Connect(verbs.ConnectConfig{...})
//	n, err := qp.PostSend(wrs)
//	n, err := cq.Poll(wcs)
//
// Posting and polling work on batches of plain values and do not allocate. A batch of sends costs
// one system call, posting receives and polling cost none.
//
// # Concurrency
//
// All methods may be called from several goroutines. Each queue is guarded by its own lock, so a
// QP can post sends, post receives and have its CQ polled in parallel. Close waits for calls that
// are under way; calls after Close return [ErrClosed].
//
// # Order of destruction
//
// Objects are closed in any order in which no object in use goes first: a CQ after its QPs, a PD
// after all that was made from it. Anything else returns an error that names what is in the way
// (and is EBUSY). Closing a Context closes all that is left.
//
// # Limits
//
// The providers built in are rxe (Soft-RoCE), and mlx5 (ConnectX-4 and later, BlueField), which has
// not met an adapter yet: docs/mlx5.md. Kernels are 5.15 and newer. Devices of other drivers are
// listed, and Open says that it can't drive them. XRC, raw packets, flow steering, device memory
// and resizing of shared receive queues are not supported. In a container the device must belong
// to the container's network namespace or to a shared one.
package verbs
