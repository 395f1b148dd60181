// SPDX-License-Identifier: Apache-2.0

package erasure

import "github.com/klauspost/reedsolomon"

// run computes c.out. Columns beyond the end of a short input are computed without
// that input, so that nothing need be padded.
func (c *Coder) run() {
	if len(c.out) == 0 {
		return
	}
	for from, end := 0, len(c.out[0]); from < end; {
		to := end
		for _, in := range c.in {
			if len(in) > from {
				to = min(to, len(in))
			}
		}
		c.columns(from, to)
		from = to
	}
	// The units belong to the caller again, perhaps to be unmapped.
	clear(c.in)
	clear(c.out)
	clear(c.active[:cap(c.active)])
}

// rowsAtOnce is how many results are computed together.
const rowsAtOnce = 8

// columns computes the columns from ≤ i < to of all results.
func (c *Coder) columns(from, to int) {
	c.active = c.active[:0]
	for _, in := range c.in {
		if len(in) > from {
			c.active = append(c.active, in)
		}
	}
	if len(c.active) == 0 {
		for _, out := range c.out {
			clear(out[from:to])
		}
		return
	}
	// With many results, all inputs of a block of columns should still be in
	// the cache when the next eight are computed.
	block := to - from
	if len(c.out) > rowsAtOnce {
		block = max(cacheBlock/len(c.active)&^255, 256)
	}
	for ; from < to; from += block {
		n := min(block, to-from)
		for row := 0; row < len(c.out); {
			rows := rowsTogether(len(c.out) - row)
			c.gather(from, row, rows)
			c.multiply(c.out[row:row+rows], from, n)
			row += rows
		}
	}
}

// cacheBlock is how many bytes of inputs a block of columns has: half of the
// smallest second-level cache among the CPUs that the kernels are for.
const cacheBlock = 128 << 10

// rowsTogether is the largest number of results, up to left, that a kernel has.
func rowsTogether(left int) int {
	switch {
	case left >= 8:
		return 8
	case left >= 4:
		return 4
	case left >= 2:
		return 2
	}
	return 1
}

// gather collects the coefficients of some results for the active inputs.
func (c *Coder) gather(from, row, rows int) {
	c.narrow = c.narrow[:0]
	for j, in := range c.in {
		if len(in) > from {
			at := j*len(c.out) + row
			c.narrow = append(c.narrow, c.coef[at:at+rows]...)
		}
	}
}

// multiply computes n bytes from from on of each of out, 1, 2, 4 or 8 results,
// from the active inputs and the gathered coefficients.
func (c *Coder) multiply(out [][]byte, from, n int) {
	if haveKernels && useKernels {
		if len(out) == 1 && allOnes(c.narrow) {
			addWide(c.active, out, from, n)
			return
		}
		c.wide = c.wide[:0]
		for _, v := range c.narrow {
			c.wide = append(c.wide, gf.affine[v])
		}
		multiplyWide(c.wide, c.active, out, from, n)
		return
	}
	multiplySlices(c.narrow, c.active, out, from, n)
}

// allOnes reports whether nothing need be multiplied, as with XOR and row 0.
func allOnes(coef []byte) bool {
	for _, v := range coef {
		if v != 1 {
			return false
		}
	}
	return true
}

// useKernels is switched off by tests.
var useKernels = true

// sliceBlock keeps eight results in the first-level cache.
const sliceBlock = 2 << 10

// multiplySlices is the portable implementation.
func multiplySlices(coef []byte, in, out [][]byte, from, n int) {
	var gal reedsolomon.LowLevel
	for end := from + n; from < end; from += sliceBlock {
		to := min(from+sliceBlock, end)
		for j := range in {
			for i := range out {
				v, src, dst := coef[j*len(out)+i], in[j][from:to], out[i][from:to]
				if j == 0 {
					gal.GalMulSlice(v, src, dst)
				} else {
					gal.GalMulSliceXor(v, src, dst)
				}
			}
		}
	}
}
