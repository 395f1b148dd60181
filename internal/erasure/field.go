// SPDX-License-Identifier: Apache-2.0

package erasure

// polynomial generates GF(2^8); 2 generates its multiplicative group.
const polynomial = 0x11d

// order is the order of the multiplicative group.
const order = 255

// A field holds what arithmetic in GF(2^8) looks up.
type field struct {
	// exp[i] is 2^i for i < 2·order, log[v] its inverse for v ≠ 0.
	exp [2 * order]byte
	log [256]uint8
	// affine[c] is the multiplication by c as the 8×8 bit matrix of the
	// instruction GF2P8AFFINEQB: bit b of byte 7−i says whether bit b of the
	// operand goes into bit i of the result.
	affine [256]uint64
}

var gf = makeField()

func makeField() *field {
	f := new(field)
	v := 1
	for i := range order {
		f.exp[i], f.exp[i+order] = byte(v), byte(v)
		f.log[v] = uint8(i)
		v <<= 1
		if v > 255 {
			v ^= polynomial
		}
	}
	for c := range f.affine {
		for b := range 8 {
			p := f.mul(byte(c), 1<<b)
			for i := range 8 {
				f.affine[c] |= uint64(p>>i&1) << (8*(7-i) + b)
			}
		}
	}
	return f
}

func (f *field) mul(a, b byte) byte {
	if a == 0 || b == 0 {
		return 0
	}
	return f.exp[int(f.log[a])+int(f.log[b])]
}

// div divides by b, which must not be 0.
func (f *field) div(a, b byte) byte {
	if a == 0 {
		return 0
	}
	return f.exp[int(f.log[a])+order-int(f.log[b])]
}

// parityPoint and dataPoint are the x and y of the Cauchy matrix.
func parityPoint(row int) byte { return byte(255 - row) }
func dataPoint(pos int) byte   { return byte(pos) }

// column is the factor that scales column pos, which makes row 0 all ones.
func column(pos int) byte { return parityPoint(0) ^ dataPoint(pos) }

// cauchy is the coefficient of data unit pos in parity row.
func cauchy(row, pos int) byte {
	return gf.div(column(pos), parityPoint(row)^dataPoint(pos))
}
