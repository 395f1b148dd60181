// SPDX-License-Identifier: Apache-2.0

package erasure

import (
	"errors"
	"fmt"
	"slices"
)

// maxUnits is how many data and parity units a group may have together.
const maxUnits = 256

// A Code says how parity depends on data.
type Code struct {
	xor bool
	m   int
}

// MDS returns the code of which any k units recover a group.
func MDS() Code { return Code{} }

// XOR returns the code with m rows, 1 to 254, of which row i covers the data units
// j with j mod m = i.
func XOR(m int) Code { return Code{xor: true, m: m} }

// rows is how many parity rows the code has for a group of k data units.
func (c Code) rows(k int) int {
	if c.xor {
		return c.m
	}
	return maxUnits - k
}

// Errors of jobs that make no sense. They are for callers' mistakes: what came
// from the network has been checked before.
var (
	errLengths = errors.New("erasure: parity units and results must be equally long and no data unit longer")
	errOverlap = errors.New("erasure: a row or position is named twice or doesn't exist")
	errTooMany = errors.New("erasure: more units are missing than the rows can recover")
)

// A Coder computes. It is not for concurrent use. Its zero value is ready.
type Coder struct {
	// in, out and coef are the operation: out[i] = Σ coef[j·len(out)+i]·in[j].
	in, out [][]byte
	coef    []byte

	// active are the inputs of one range of columns, narrow their coefficients
	// for the results that are computed together, and wide those as the kernels
	// take them (field.affine).
	active [][]byte
	wide   []uint64
	narrow []byte

	// factors are what decodeMDS multiplies each result by.
	factors []byte
}

// Encode computes the parity units of the given rows into parity, whose slices
// must all have the group's unit length and must overlap nothing else. No unit of
// data may be longer.
func (c *Coder) Encode(code Code, data [][]byte, rows []int, parity [][]byte) error {
	if err := check(code, data, rows, parity, nil, nil); err != nil {
		return err
	}
	if code.xor {
		for i, row := range rows {
			c.begin()
			for j := row; j < len(data); j += code.m {
				c.in = append(c.in, data[j])
			}
			c.sum(parity[i])
		}
		return nil
	}
	c.begin()
	c.in = append(c.in, data...)
	c.out = append(c.out, parity...)
	for j := range data {
		for _, row := range rows {
			c.coef = append(c.coef, cauchy(row, j))
		}
	}
	c.run()
	return nil
}

// begin empties the operation.
func (c *Coder) begin() { c.in, c.out, c.coef = c.in[:0], c.out[:0], c.coef[:0] }

// sum makes out the XOR of the inputs.
func (c *Coder) sum(out []byte) {
	c.out = append(c.out, out)
	for range c.in {
		c.coef = append(c.coef, 1)
	}
	c.run()
}

// check looks for mistakes. All of parity and out, not those of missing data, are
// the unit's length.
func check(code Code, data [][]byte, rows []int, parity [][]byte, missing []int, out [][]byte) error {
	k := len(data)
	if k < 1 || k > maxUnits-1 || code.rows(k) < 1 || code.xor && k+code.m > maxUnits-1 {
		return fmt.Errorf("erasure: %d data units and %d rows: both must be at least 1 and their sum at most 255", k, code.m)
	}
	if len(rows) != len(parity) || len(missing) != len(out) {
		return errLengths
	}
	if !distinct(rows, code.rows(k)) || !distinct(missing, k) {
		return errOverlap
	}
	if len(parity) == 0 {
		return nil
	}
	unit := len(parity[0])
	for _, p := range parity {
		if len(p) != unit {
			return errLengths
		}
	}
	for _, o := range out {
		if len(o) != unit {
			return errLengths
		}
	}
	for j, d := range data {
		if len(d) > unit && !slices.Contains(missing, j) {
			return errLengths
		}
	}
	return nil
}

// distinct reports whether the numbers are different and below limit.
func distinct(numbers []int, limit int) bool {
	var seen [maxUnits / 64]uint64
	for _, n := range numbers {
		if n < 0 || n >= limit || seen[n/64]>>(n%64)&1 != 0 {
			return false
		}
		seen[n/64] |= 1 << (n % 64)
	}
	return true
}
