// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// func ring(record *uint32, count uint32, register *uint64, doorbell uint64)
//
// Stores to memory stay in order here; SFENCE keeps the one to the device behind them, and pushes
// it out of a write-combining buffer (mmio_wc_start, mmio_flush_writes of rdma-core).
TEXT ·ring(SB), NOSPLIT, $0-32
	MOVQ record+0(FP), AX
	MOVL count+8(FP), BX
	MOVQ register+16(FP), CX
	MOVQ doorbell+24(FP), DX
	MOVL BX, (AX)
	SFENCE
	MOVQ DX, (CX)
	SFENCE
	RET

// func announce(record *uint32, count uint32)
TEXT ·announce(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL count+8(FP), BX
	MOVL BX, (AX)
	SFENCE
	RET

// func flush()
TEXT ·flush(SB), NOSPLIT, $0-0
	SFENCE
	RET

// func copyBlock(register, block *[64]byte)
TEXT ·copyBlock(SB), NOSPLIT, $0-16
	MOVQ  register+0(FP), DI
	MOVQ  block+8(FP), SI
	MOVOU  (SI), X0
	MOVOU  16(SI), X1
	MOVOU  32(SI), X2
	MOVOU  48(SI), X3
	MOVOU  X0, (DI)
	MOVOU  X1, 16(DI)
	MOVOU  X2, 32(DI)
	MOVOU  X3, 48(DI)
	RET

// func store(record *uint32, value uint32)
TEXT ·store(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL value+8(FP), BX
	MOVL BX, (AX)
	RET

// func load(p *uint32) uint32
//
// Loads of memory stay in order (Intel SDM, volume 3, "Memory Ordering"). The LFENCE of rdma-core's udma_from_device_barrier is for
// memory of other types, which queues don't lie in.
TEXT ·load(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL (AX), BX
	MOVL BX, ret+8(FP)
	RET
