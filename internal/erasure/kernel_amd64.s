// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Each kernel walks the columns of its units once: for a column it keeps all
// results in registers, multiplies every input by one coefficient for each
// result, and stores the results at the end. The last columns are narrow, 64
// bytes, of which K1 selects those that exist.
//
// VGF2P8AFFINEQB multiplies bytes by 8×8 bit matrices, and multiplication by a
// constant of any GF(2^8) is such a matrix (affine, in field.go).
//
// Registers:
//	SI, DX   headers of the inputs, and how many there are
//	DI       headers of the outputs
//	CX       coefficients as 8×8 bit matrices, those of an input together
//	AX, BX   the column's offset and where the last column ends
//	R9–R12   the current input's header, coefficients, countdown and bytes
//	Z0–Z15   results, Z16–Z19 the input, Z20 a coefficient, Z21–Z24 products

// AHEAD is how far ahead inputs are fetched. The prefetchers of the CPU follow
// fewer streams than a group has units. Fetching past the end of a unit is no
// access: it can't fault.
#define AHEAD 512

#define ARGS \
	MOVQ    coef_base+0(FP), CX; \
	MOVQ    in_base+24(FP), SI; \
	MOVQ    in_len+32(FP), DX; \
	MOVQ    out_base+48(FP), DI; \
	MOVQ    off+72(FP), AX; \
	MOVQ    n+80(FP), BX; \
	ADDQ    AX, BX

#define FIRST_INPUT \
	MOVQ SI, R9; \
	MOVQ CX, R10; \
	MOVQ DX, R11

// NEXT_INPUT leaves the flags for JNZ.
#define NEXT_INPUT(coefs) \
	ADDQ $24, R9; \
	ADDQ $coefs, R10; \
	DECQ R11

// ROOM leaves the flags for JGT: is there less than a column of that width?
#define ROOM(width) \
	LEAQ width(AX), R12; \
	CMPQ R12, BX

// MASK makes K1 select the next 64 bytes or what is left.
#define MASK \
	MOVQ    BX, R13; \
	SUBQ    AX, R13; \
	MOVQ    $64, R8; \
	CMPQ    R13, R8; \
	CMOVQGT R8, R13; \
	MOVQ    $-1, R12; \
	BZHIQ   R13, R12, R12; \
	KMOVQ   R12, K1

#define ZERO1(a) VPXORQ a, a, a
#define ZERO2(a, b) ZERO1(a); ZERO1(b)
#define ZERO4(a, b, c, d) ZERO2(a, b); ZERO2(c, d)

#define FETCH2 \
	PREFETCHT0 AHEAD(R12)(AX*1); \
	PREFETCHT0 (AHEAD+64)(R12)(AX*1)

#define FETCH4 \
	PREFETCHT0 (AHEAD+128)(R12)(AX*1); \
	PREFETCHT0 (AHEAD+192)(R12)(AX*1)

#define IN2 \
	MOVQ      (R9), R12; \
	FETCH2; \
	VMOVDQU64 (R12)(AX*1), Z16; \
	VMOVDQU64 64(R12)(AX*1), Z17

#define IN4 \
	IN2; \
	FETCH4; \
	VMOVDQU64 128(R12)(AX*1), Z18; \
	VMOVDQU64 192(R12)(AX*1), Z19

// ADD4 adds a wide column of an input as it is to the results.
#define ADD4 \
	MOVQ   (R9), R12; \
	FETCH2; \
	FETCH4; \
	VPXORQ (R12)(AX*1), Z0, Z0; \
	VPXORQ 64(R12)(AX*1), Z1, Z1; \
	VPXORQ 128(R12)(AX*1), Z2, Z2; \
	VPXORQ 192(R12)(AX*1), Z3, Z3

#define INMASK \
	MOVQ       (R9), R12; \
	VMOVDQU8.Z (R12)(AX*1), K1, Z16

#define MUL1(r, a) \
	VBROADCASTSD   (8*r)(R10), Z20; \
	VGF2P8AFFINEQB $0, Z20, Z16, Z21; \
	VPXORQ         Z21, a, a

#define MUL2(r, a, b) \
	MUL1(r, a); \
	VGF2P8AFFINEQB $0, Z20, Z17, Z22; \
	VPXORQ         Z22, b, b

#define MUL4(r, a, b, c, d) \
	MUL2(r, a, b); \
	VGF2P8AFFINEQB $0, Z20, Z18, Z23; \
	VPXORQ         Z23, c, c; \
	VGF2P8AFFINEQB $0, Z20, Z19, Z24; \
	VPXORQ         Z24, d, d

#define OUT(r) MOVQ (24*r)(DI), R12
#define STORE2(r, a, b) \
	OUT(r); \
	VMOVDQU64 a, (R12)(AX*1); \
	VMOVDQU64 b, 64(R12)(AX*1)
#define STORE4(r, a, b, c, d) \
	STORE2(r, a, b); \
	VMOVDQU64 c, 128(R12)(AX*1); \
	VMOVDQU64 d, 192(R12)(AX*1)
#define STOREMASK(r, a) \
	OUT(r); \
	VMOVDQU8 a, K1, (R12)(AX*1)

// func sum(in, out [][]byte, off, n int)
TEXT ·sum(SB), NOSPLIT, $0-64
	MOVQ in_base+0(FP), SI
	MOVQ in_len+8(FP), DX
	MOVQ out_base+24(FP), DI
	MOVQ off+48(FP), AX
	MOVQ n+56(FP), BX
	ADDQ AX, BX

wide:
	ROOM(256)
	JGT narrow
	ZERO4(Z0, Z1, Z2, Z3)
	MOVQ SI, R9
	MOVQ DX, R11

wideInput:
	ADD4
	ADDQ $24, R9
	DECQ R11
	JNZ wideInput
	STORE4(0, Z0, Z1, Z2, Z3)
	ADDQ $256, AX
	JMP wide

narrow:
	CMPQ AX, BX
	JGE done
	MASK
	ZERO1(Z0)
	MOVQ SI, R9
	MOVQ DX, R11

narrowInput:
	INMASK
	VPXORQ Z16, Z0, Z0
	ADDQ $24, R9
	DECQ R11
	JNZ narrowInput
	STOREMASK(0, Z0)
	ADDQ $64, AX
	JMP narrow

done:
	VZEROUPPER
	RET

// func multiply1(coef []uint64, in, out [][]byte, off, n int)
TEXT ·multiply1(SB), NOSPLIT, $0-88
	ARGS

wide:
	ROOM(256)
	JGT narrow
	ZERO4(Z0, Z1, Z2, Z3)
	FIRST_INPUT

wideInput:
	IN4
	MUL4(0, Z0, Z1, Z2, Z3)
	NEXT_INPUT(8)
	JNZ wideInput
	STORE4(0, Z0, Z1, Z2, Z3)
	ADDQ $256, AX
	JMP wide

narrow:
	CMPQ AX, BX
	JGE done
	MASK
	ZERO1(Z0)
	FIRST_INPUT

narrowInput:
	INMASK
	MUL1(0, Z0)
	NEXT_INPUT(8)
	JNZ narrowInput
	STOREMASK(0, Z0)
	ADDQ $64, AX
	JMP narrow

done:
	VZEROUPPER
	RET

// func multiply2(coef []uint64, in, out [][]byte, off, n int)
TEXT ·multiply2(SB), NOSPLIT, $0-88
	ARGS

wide:
	ROOM(256)
	JGT narrow
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	FIRST_INPUT

wideInput:
	IN4
	MUL4(0, Z0, Z1, Z2, Z3)
	MUL4(1, Z4, Z5, Z6, Z7)
	NEXT_INPUT(16)
	JNZ wideInput
	STORE4(0, Z0, Z1, Z2, Z3)
	STORE4(1, Z4, Z5, Z6, Z7)
	ADDQ $256, AX
	JMP wide

narrow:
	CMPQ AX, BX
	JGE done
	MASK
	ZERO2(Z0, Z1)
	FIRST_INPUT

narrowInput:
	INMASK
	MUL1(0, Z0)
	MUL1(1, Z1)
	NEXT_INPUT(16)
	JNZ narrowInput
	STOREMASK(0, Z0)
	STOREMASK(1, Z1)
	ADDQ $64, AX
	JMP narrow

done:
	VZEROUPPER
	RET

// func multiply4(coef []uint64, in, out [][]byte, off, n int)
TEXT ·multiply4(SB), NOSPLIT, $0-88
	ARGS

wide:
	ROOM(256)
	JGT narrow
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	FIRST_INPUT

wideInput:
	IN4
	MUL4(0, Z0, Z1, Z2, Z3)
	MUL4(1, Z4, Z5, Z6, Z7)
	MUL4(2, Z8, Z9, Z10, Z11)
	MUL4(3, Z12, Z13, Z14, Z15)
	NEXT_INPUT(32)
	JNZ wideInput
	STORE4(0, Z0, Z1, Z2, Z3)
	STORE4(1, Z4, Z5, Z6, Z7)
	STORE4(2, Z8, Z9, Z10, Z11)
	STORE4(3, Z12, Z13, Z14, Z15)
	ADDQ $256, AX
	JMP wide

narrow:
	CMPQ AX, BX
	JGE done
	MASK
	ZERO4(Z0, Z1, Z2, Z3)
	FIRST_INPUT

narrowInput:
	INMASK
	MUL1(0, Z0)
	MUL1(1, Z1)
	MUL1(2, Z2)
	MUL1(3, Z3)
	NEXT_INPUT(32)
	JNZ narrowInput
	STOREMASK(0, Z0)
	STOREMASK(1, Z1)
	STOREMASK(2, Z2)
	STOREMASK(3, Z3)
	ADDQ $64, AX
	JMP narrow

done:
	VZEROUPPER
	RET

// func multiply8(coef []uint64, in, out [][]byte, off, n int)
TEXT ·multiply8(SB), NOSPLIT, $0-88
	ARGS

wide:
	ROOM(128)
	JGT narrow
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	FIRST_INPUT

wideInput:
	IN2
	MUL2(0, Z0, Z1)
	MUL2(1, Z2, Z3)
	MUL2(2, Z4, Z5)
	MUL2(3, Z6, Z7)
	MUL2(4, Z8, Z9)
	MUL2(5, Z10, Z11)
	MUL2(6, Z12, Z13)
	MUL2(7, Z14, Z15)
	NEXT_INPUT(64)
	JNZ wideInput
	STORE2(0, Z0, Z1)
	STORE2(1, Z2, Z3)
	STORE2(2, Z4, Z5)
	STORE2(3, Z6, Z7)
	STORE2(4, Z8, Z9)
	STORE2(5, Z10, Z11)
	STORE2(6, Z12, Z13)
	STORE2(7, Z14, Z15)
	ADDQ $128, AX
	JMP wide

narrow:
	CMPQ AX, BX
	JGE done
	MASK
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	FIRST_INPUT

narrowInput:
	INMASK
	MUL1(0, Z0)
	MUL1(1, Z1)
	MUL1(2, Z2)
	MUL1(3, Z3)
	MUL1(4, Z4)
	MUL1(5, Z5)
	MUL1(6, Z6)
	MUL1(7, Z7)
	NEXT_INPUT(64)
	JNZ narrowInput
	STOREMASK(0, Z0)
	STOREMASK(1, Z1)
	STOREMASK(2, Z2)
	STOREMASK(3, Z3)
	STOREMASK(4, Z4)
	STOREMASK(5, Z5)
	STOREMASK(6, Z6)
	STOREMASK(7, Z7)
	ADDQ $64, AX
	JMP narrow

done:
	VZEROUPPER
	RET
