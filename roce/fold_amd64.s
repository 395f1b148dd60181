// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Folding (V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009):
// 128 bits of a message can be replaced by a product that is added to what comes some distance later, and the
// remainder stays the same. hash/crc32 folds into one register of 512 bits, each step of which waits for the one
// before; here there are four, whose steps don't wait for each other, of 512 bits, or of 256 or 128
// where the processor has no wider ones.
//
// Registers:
//	SI, CX   the bytes left, and how many
//	DX       what to fetch meanwhile; a fetch of what isn't there does nothing
//	DI       the keys: of 2048 bits, of 512, of 384, of 256, of 128, those of 128 to 64 and of 96, μ and the generator,
//	         of 1024
//	Z1–Z4    what is folded, of 2048 bits; Y1–Y4, of 1024; X1, X2, X3 and X9, of 512
//	Z16, Z17 keys of 2048 and of 512 bits; Y14, Y15, of 1024 and of 256; X14, X4, of 512 and of 128

#define KEY2048 0(DI)
#define KEY512 16(DI)
#define LANES 32(DI)
#define KEY256 48(DI)
#define KEY128 64(DI)
#define KEY64 96(DI)
#define BARRETT 112(DI)
#define KEY1024 128(DI)

// ARGUMENTS are those of all three functions.
#define ARGUMENTS \
	MOVL  crc+0(FP), AX; \
	MOVQ  p_base+8(FP), SI; \
	MOVQ  p_len+16(FP), CX; \
	MOVQ  keys+32(FP), DI; \
	MOVQ  next+40(FP), DX; \
	VMOVD AX, X0

// FOLDV multiplies from by keys and adds it to into, and to what is at add.
#define FOLDV(keys, from, add, into, tmp) \
	VPCLMULQDQ $0x11, keys, from, tmp; \
	VPCLMULQDQ $0x00, keys, from, into; \
	VPXOR      add, tmp, tmp; \
	VPXOR      tmp, into, into

// REDUCE ends each function. It folds what is left, less than the width of a register and a multiple of 16 bytes, into X1,
// by the key of 128 bits in X4. Then it makes 96 of 128 bits, 64 of 96, and by Barrett's reduction the remainder, which
// is at bits 32 to 63, and returns it. Its X6 are the lowest 32 bits.
#define REDUCE \
	JMP        last; \
lane: \
	FOLDV(X4, X1, (SI), X1, X5); \
	ADDQ       $16, SI; \
	SUBQ       $16, CX; \
last: \
	CMPQ       CX, $16; \
	JGE        lane; \
	VPCMPEQD   X6, X6, X6; \
	VPSRLDQ    $12, X6, X6; \
	VPCLMULQDQ $0x10, X4, X1, X5; \
	VPSRLDQ    $8, X1, X1; \
	VPXOR      X5, X1, X1; \
	VMOVDQU    KEY64, X4; \
	VPAND      X6, X1, X5; \
	VPSRLDQ    $4, X1, X1; \
	VPCLMULQDQ $0x00, X4, X5, X5; \
	VPXOR      X5, X1, X1; \
	VMOVDQU    BARRETT, X4; \
	VPAND      X6, X1, X5; \
	VPCLMULQDQ $0x00, X4, X5, X5; \
	VPAND      X6, X5, X5; \
	VPCLMULQDQ $0x10, X4, X5, X5; \
	VPXOR      X5, X1, X1; \
	VPEXTRD    $1, X1, AX; \
	MOVL       AX, ret+48(FP); \
	RET

// FOLD multiplies from by keys and adds it to into, and to the 64 bytes at add.
#define FOLD(keys, from, add, into) \
	VPCLMULQDQ $0x11, keys, from, Z5; \
	VPCLMULQDQ $0x00, keys, from, into; \
	VPTERNLOGQ $0x96, add, Z5, into

// func foldBy512(crc uint32, p []byte, keys *foldKeys, next *byte) uint32
TEXT ·foldBy512(SB), NOSPLIT, $0-52
	ARGUMENTS
	CMPQ  CX, $256
	JLT   short

	VBROADCASTI32X4 KEY2048, Z16
	VBROADCASTI32X4 KEY512, Z17
	VPXORQ    (SI), Z0, Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	VMOVDQU64 192(SI), Z4
	ADDQ      $256, SI
	SUBQ      $256, CX
	JMP       more

wide:
	VPCLMULQDQ $0x11, Z16, Z1, Z5
	VPCLMULQDQ $0x11, Z16, Z2, Z6
	VPCLMULQDQ $0x11, Z16, Z3, Z7
	VPCLMULQDQ $0x11, Z16, Z4, Z8
	VPCLMULQDQ $0x00, Z16, Z1, Z1
	VPCLMULQDQ $0x00, Z16, Z2, Z2
	VPCLMULQDQ $0x00, Z16, Z3, Z3
	VPCLMULQDQ $0x00, Z16, Z4, Z4
	VPTERNLOGQ $0x96, (SI), Z5, Z1
	VPTERNLOGQ $0x96, 64(SI), Z6, Z2
	VPTERNLOGQ $0x96, 128(SI), Z7, Z3
	VPTERNLOGQ $0x96, 192(SI), Z8, Z4
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	PREFETCHT0 128(DX)
	PREFETCHT0 192(DX)
	ADDQ       $256, SI
	ADDQ       $256, DX
	SUBQ       $256, CX

more:
	CMPQ CX, $256
	JGE  wide
	FOLD(Z17, Z1, Z2, Z1)
	FOLD(Z17, Z1, Z3, Z1)
	FOLD(Z17, Z1, Z4, Z1)
	JMP  rest

narrow:
	FOLD(Z17, Z1, (SI), Z1)
	ADDQ $64, SI
	SUBQ $64, CX

rest:
	CMPQ CX, $64
	JGE  narrow

	// Four lanes of 128 bits become one: the last is added as it is.
	VMOVDQU64     LANES, Z6
	VEXTRACTI32X4 $3, Z1, X7
	VPCLMULQDQ    $0x11, Z6, Z1, Z5
	VPCLMULQDQ    $0x00, Z6, Z1, Z1
	VPXORQ        Z5, Z1, Z1
	VEXTRACTI64X4 $1, Z1, Y5
	VPXOR         Y5, Y1, Y1
	VEXTRACTI128  $1, Y1, X5
	VPXOR         X5, X1, X1
	VPXOR         X7, X1, X1
	VZEROUPPER
	VMOVDQU       KEY128, X4
	JMP           lanes

short:
	VPXOR   (SI), X0, X1
	ADDQ    $16, SI
	SUBQ    $16, CX
	VMOVDQU KEY128, X4

lanes:
	REDUCE

// The functions of 256 and of 128 bits differ in their registers alone, and in W, the bytes of one. They have no
// instruction that adds three, as FOLD has.

// WIDE folds four registers over the next four.
#define WIDE(keys, a, b, c, d, ta, tb, tc, td, W) \
	VPCLMULQDQ $0x11, keys, a, ta; \
	VPCLMULQDQ $0x11, keys, b, tb; \
	VPCLMULQDQ $0x11, keys, c, tc; \
	VPCLMULQDQ $0x11, keys, d, td; \
	VPCLMULQDQ $0x00, keys, a, a; \
	VPCLMULQDQ $0x00, keys, b, b; \
	VPCLMULQDQ $0x00, keys, c, c; \
	VPCLMULQDQ $0x00, keys, d, d; \
	VPXOR      (SI), ta, ta; \
	VPXOR      W(SI), tb, tb; \
	VPXOR      2*W(SI), tc, tc; \
	VPXOR      3*W(SI), td, td; \
	VPXOR      ta, a, a; \
	VPXOR      tb, b, b; \
	VPXOR      tc, c, c; \
	VPXOR      td, d, d; \
	ADDQ       $4*W, SI; \
	ADDQ       $4*W, DX; \
	SUBQ       $4*W, CX

// func foldBy256(crc uint32, p []byte, keys *foldKeys, next *byte) uint32
TEXT ·foldBy256(SB), NOSPLIT, $0-52
	ARGUMENTS
	CMPQ CX, $128
	JLT  short

	VBROADCASTI128 KEY1024, Y14
	VBROADCASTI128 KEY256, Y15
	VPXOR   (SI), Y0, Y1
	VMOVDQU 32(SI), Y2
	VMOVDQU 64(SI), Y3
	VMOVDQU 96(SI), Y4
	ADDQ    $128, SI
	SUBQ    $128, CX
	JMP     more

wide:
	PREFETCHT0 (DX)
	PREFETCHT0 64(DX)
	WIDE(Y14, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, 32)

more:
	CMPQ CX, $128
	JGE  wide
	FOLDV(Y15, Y1, Y2, Y1, Y9)
	FOLDV(Y15, Y1, Y3, Y1, Y9)
	FOLDV(Y15, Y1, Y4, Y1, Y9)
	JMP  rest

narrow:
	FOLDV(Y15, Y1, (SI), Y1, Y9)
	ADDQ $32, SI
	SUBQ $32, CX

rest:
	CMPQ CX, $32
	JGE  narrow

	// Two lanes of 128 bits become one: the first is folded over the second.
	VEXTRACTI128 $1, Y1, X7
	VZEROUPPER
	VMOVDQU      KEY128, X4
	FOLDV(X4, X1, X7, X1, X5)
	JMP          lanes

short:
	VPXOR   (SI), X0, X1
	ADDQ    $16, SI
	SUBQ    $16, CX
	VMOVDQU KEY128, X4

lanes:
	REDUCE

// func foldBy128(crc uint32, p []byte, keys *foldKeys, next *byte) uint32
TEXT ·foldBy128(SB), NOSPLIT, $0-52
	ARGUMENTS
	VMOVDQU KEY128, X4
	CMPQ    CX, $64
	JLT     short

	VMOVDQU KEY512, X14
	VPXOR   (SI), X0, X1
	VMOVDQU 16(SI), X2
	VMOVDQU 32(SI), X3
	VMOVDQU 48(SI), X9
	ADDQ    $64, SI
	SUBQ    $64, CX
	JMP     more

wide:
	PREFETCHT0 (DX)
	WIDE(X14, X1, X2, X3, X9, X5, X6, X7, X8, 16)

more:
	CMPQ CX, $64
	JGE  wide
	FOLDV(X4, X1, X2, X1, X5)
	FOLDV(X4, X1, X3, X1, X5)
	FOLDV(X4, X1, X9, X1, X5)
	JMP  lanes

short:
	VPXOR (SI), X0, X1
	ADDQ  $16, SI
	SUBQ  $16, CX

lanes:
	REDUCE
