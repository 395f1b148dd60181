// SPDX-License-Identifier: Apache-2.0

//go:build flexio && linux && (amd64 || arm64)

package device

// The functions of the program, and the commands and objects of src/control.h.
const (
	eventFunction = "sdr_event"
	rpcFunction   = "sdr_rpc"

	opSize = iota - 1
	opControl
	opWorker
	opTable
	opAttach
	opDetach
	opMark
	opOpen
	opClose
	opLength
	opRemove
	opEpochs
	opActivate
	opCounters
)

type kind int

const (
	kindControl kind = iota
	kindWorker
	kindTable
	kindChannel
	kindMark
	kindMessage
	kinds
)

const (
	commandSize = 24 + 15*8
	refused     = ^uint64(0)
	cqeBytes    = 64
)
