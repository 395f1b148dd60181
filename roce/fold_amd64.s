// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// Folding (V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009):
// 128 bits of a message can be replaced by a product that is added to what comes some distance later, and the
// remainder stays the same. hash/crc32 folds into one register of 512 bits, each step of which waits for the one
// before; here there are four, whose steps don't wait for each other.
//
// Registers:
//	SI, CX   the bytes left, and how many
//	DX       what to fetch meanwhile; a fetch of what isn't there does nothing
//	DI       the keys: of 2048 bits, of 512, of 384, of 256, of 128, those of 128 to 64 and of 96, μ and the generator
//	Z1–Z4    what is folded, of 2048 bits
//	Z16, Z17 keys of 2048 and of 512 bits

#define KEY2048 0(DI)
#define KEY512 16(DI)
#define LANES 32(DI)
#define KEY128 64(DI)
#define KEY64 96(DI)
#define BARRETT 112(DI)

// FOLD multiplies from by keys and adds it to into, and to the 64 bytes at add.
#define FOLD(keys, from, add, into) \
	VPCLMULQDQ $0x11, keys, from, Z5; \
	VPCLMULQDQ $0x00, keys, from, into; \
	VPTERNLOGQ $0x96, add, Z5, into

// func fold(crc uint32, p []byte, keys *foldKeys, next *byte) uint32
TEXT ·fold(SB), NOSPLIT, $0-52
	MOVL  crc+0(FP), AX
	MOVQ  p_base+8(FP), SI
	MOVQ  p_len+16(FP), CX
	MOVQ  keys+32(FP), DI
	MOVQ  next+40(FP), DX
	VMOVD AX, X0
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
	JMP           last

short:
	VPXOR   (SI), X0, X1
	ADDQ    $16, SI
	SUBQ    $16, CX
	VMOVDQU KEY128, X4
	JMP     last

lane:
	VPCLMULQDQ $0x11, X4, X1, X5
	VPCLMULQDQ $0x00, X4, X1, X1
	VPXOR      (SI), X5, X5
	VPXOR      X5, X1, X1
	ADDQ       $16, SI
	SUBQ       $16, CX

last:
	CMPQ CX, $16
	JGE  lane

	// 128 bits to 96, 96 to 64, and Barrett's reduction to the remainder, which is at bits 32 to 63.
	VPCMPEQD   X6, X6, X6
	VPSRLDQ    $12, X6, X6             // the lowest 32 bits
	VPCLMULQDQ $0x10, X4, X1, X5
	VPSRLDQ    $8, X1, X1
	VPXOR      X5, X1, X1
	VMOVDQU    KEY64, X4
	VPAND      X6, X1, X5
	VPSRLDQ    $4, X1, X1
	VPCLMULQDQ $0x00, X4, X5, X5
	VPXOR      X5, X1, X1
	VMOVDQU    BARRETT, X4
	VPAND      X6, X1, X5
	VPCLMULQDQ $0x00, X4, X5, X5
	VPAND      X6, X5, X5
	VPCLMULQDQ $0x10, X4, X5, X5
	VPXOR      X5, X1, X1
	VPEXTRD    $1, X1, AX
	MOVL       AX, ret+48(FP)
	RET
