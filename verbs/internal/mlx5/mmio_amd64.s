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

// func store(record *uint32, value uint32)
TEXT ·store(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL value+8(FP), BX
	MOVL BX, (AX)
	RET

// func load(p *uint32) uint32
//
// Loads stay in order.
TEXT ·load(SB), NOSPLIT, $0-12
	MOVQ p+0(FP), AX
	MOVL (AX), BX
	MOVL BX, ret+8(FP)
	RET
