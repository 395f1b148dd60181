// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Barriers, as rdma-core has them (util/udma_barrier.h): DMB OSHST (2, udma_to_device_barrier) before a doorbell record, DSB ST (14,
// mmio_wc_start and mmio_flush_writes) before a store to a register and after it, DMB OSHLD (1, udma_from_device_barrier) after a load
// that says what else may be read.

// func ring(record *uint32, count uint32, register *uint64, doorbell uint64)
TEXT ·ring(SB), NOSPLIT, $0-32
	MOVD  record+0(FP), R0
	MOVWU count+8(FP), R1
	MOVD  register+16(FP), R2
	MOVD  doorbell+24(FP), R3
	DMB   $2
	MOVW  R1, (R0)
	DSB   $14
	MOVD  R3, (R2)
	DSB   $14
	RET

// func announce(record *uint32, count uint32)
TEXT ·announce(SB), NOSPLIT, $0-12
	MOVD  record+0(FP), R0
	MOVWU count+8(FP), R1
	DMB   $2
	MOVW  R1, (R0)
	DSB   $14
	RET

// func flush()
TEXT ·flush(SB), NOSPLIT, $0-0
	DSB $14
	RET

// func copyBlock(register, block *[64]byte)
TEXT ·copyBlock(SB), NOSPLIT, $0-16
	MOVD register+0(FP), R0
	MOVD block+8(FP), R1
	VLD1 (R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VST1 [V0.B16, V1.B16, V2.B16, V3.B16], (R0)
	RET

// func store(record *uint32, value uint32)
TEXT ·store(SB), NOSPLIT, $0-12
	MOVD  record+0(FP), R0
	MOVWU value+8(FP), R1
	DMB   $2
	MOVW  R1, (R0)
	RET

// func load(p *uint32) uint32
TEXT ·load(SB), NOSPLIT, $0-12
	MOVD  p+0(FP), R0
	MOVWU (R0), R1
	DMB   $1
	MOVW  R1, ret+8(FP)
	RET
