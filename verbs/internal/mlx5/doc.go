// SPDX-License-Identifier: Apache-2.0

// Package mlx5 is the user-space half of NVIDIA's mlx5 driver: the queues of ConnectX-4 and later, and of
// BlueField. A queue lies in memory of this process, which the kernel has pinned. A driver writes requests into
// it, then their number into a doorbell record, also in memory, and then the beginning of the last request into a
// register of the device, which is mapped. Completions are written by the device and recognized by their owner
// bit.
//
// Layouts are those of rdma-core's providers/mlx5 (mlx5dv.h, wqe.h), and all words are big endian.
//
// Callers serialize access to a queue.
package mlx5

import (
	"encoding/binary"

	_ "github.com/sdr-rdma/go-sdr/internal/platform"
)

var be = binary.BigEndian

// BlockSize is the size of a send queue's blocks (MLX5_SEND_WQE_BB); a request takes one or more.
const BlockSize = 64

// segment is the unit of requests, an "octoword".
const segment = 16

// invalidLKey ends a scatter list (MLX5_INVALID_LKEY).
const invalidLKey = 0x100

// Opcodes of send requests and of their completions.
const (
	OpSendInval   = 0x01
	OpWrite       = 0x08
	OpWriteImm    = 0x09
	OpSend        = 0x0a
	OpSendImm     = 0x0b
	OpRead        = 0x10
	OpCompareSwap = 0x11
	OpFetchAdd    = 0x12
	OpUMR         = 0x25
)

// Bits of a request's control segment (fm_ce_se).
const (
	Fence      = 4 << 5
	smallFence = 1 << 5
	Signaled   = 2 << 2
	Solicited  = 1 << 1
)
