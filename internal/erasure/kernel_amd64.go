// SPDX-License-Identifier: Apache-2.0

package erasure

import "golang.org/x/sys/cpu"

// haveKernels: the kernels need 512-bit registers, byte masks and GFNI. Every CPU
// that has those has BMI2.
var haveKernels = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512GFNI && cpu.X86.HasBMI2

// addWide computes n bytes from off on of the one slice of out: the sum of in.
func addWide(in, out [][]byte, off, n int) { sum(in, out, off, n) }

// multiplyWide computes n bytes from off on of each of out. coef has a matrix for
// each input and result, those of an input together.
func multiplyWide(coef []uint64, in, out [][]byte, off, n int) {
	switch len(out) {
	case 1:
		multiply1(coef, in, out, off, n)
	case 2:
		multiply2(coef, in, out, off, n)
	case 4:
		multiply4(coef, in, out, off, n)
	case 8:
		multiply8(coef, in, out, off, n)
	}
}

// The kernels check nothing: all slices of in and out must reach to off+n, in must
// not be empty, and coef must have len(in) matrices for each result.

//go:noescape
func sum(in, out [][]byte, off, n int)

//go:noescape
func multiply1(coef []uint64, in, out [][]byte, off, n int)

//go:noescape
func multiply2(coef []uint64, in, out [][]byte, off, n int)

//go:noescape
func multiply4(coef []uint64, in, out [][]byte, off, n int)

//go:noescape
func multiply8(coef []uint64, in, out [][]byte, off, n int)
