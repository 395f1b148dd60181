// SPDX-License-Identifier: Apache-2.0

package erasure

import "slices"

// Decode computes the data units at the positions missing into out, from the
// other data units of the group and the parity units of rows. The slices of out
// and parity must have the group's unit length, those of out overlap nothing
// else; data[p] isn't looked at for a missing p, a shorter unit's result ends
// with zeros.
//
// MDS needs as many rows as there are missing units and ignores further ones; XOR
// needs the row of each missing unit, of which no other may be missing.
func (c *Coder) Decode(code Code, data [][]byte, rows []int, parity [][]byte, missing []int, out [][]byte) error {
	if err := check(code, data, rows, parity, missing, out); err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	if code.xor {
		return c.decodeXOR(code.m, data, rows, parity, missing, out)
	}
	if len(rows) < len(missing) {
		return errTooMany
	}
	c.decodeMDS(data, rows[:len(missing)], parity, missing, out)
	return nil
}

func (c *Coder) decodeXOR(groups int, data [][]byte, rows []int, parity [][]byte, missing []int, out [][]byte) error {
	for i, pos := range missing {
		c.begin()
		for r, row := range rows {
			if row == pos%groups {
				c.in = append(c.in, parity[r])
			}
		}
		if len(c.in) == 0 {
			return errTooMany
		}
		for _, other := range missing {
			if other != pos && other%groups == pos%groups {
				return errTooMany
			}
		}
		for j := pos % groups; j < len(data); j += groups {
			if j != pos {
				c.in = append(c.in, data[j])
			}
		}
		c.sum(out[i])
	}
	return nil
}

// decodeMDS multiplies the units in place by what solves the system of the rows.
//
// With s(j) the scale of column j, parity i is Σ d(j)·s(j)/(x(i)+y(j)). Multiplied
// by Π(x(i)+y(l)) over all l it is f(x(i)), where f is the polynomial of degree
// below k with f(y(j)) = d(j)·s(j)·Π(y(j)+y(l)) over all l ≠ j. Data and parity
// in place are thus k values of f, and the missing data follow by Lagrange's
// formula. With M the missing positions and R the rows, most factors cancel:
//
//	d(p) = h(p) · ( Σ g(j)·d(j)/(y(p)+y(j)) + Σ q(i)·parity(i)/(y(p)+x(i)) )
//	g(j) = s(j) · Π(y(j)+y(l), l in M) / Π(y(j)+x(i), i in R)
//	q(i) = Π(x(i)+y(l), l in M) / Π(x(i)+x(r), r in R, r ≠ i)
//	h(p) = Π(y(p)+x(i), i in R) / ( s(p) · Π(y(p)+y(l), l in M, l ≠ p) )
//
// That takes (k + e)·e steps for e missing units; inverting the k×k matrix of the
// units in place would take k³.
func (c *Coder) decodeMDS(data [][]byte, rows []int, parity [][]byte, missing []int, out [][]byte) {
	c.begin()
	c.out = append(c.out, out...)
	c.factors = c.factors[:0]
	for _, p := range missing {
		y := dataPoint(p)
		h := gf.div(rowProduct(y, rows), gf.mul(column(p), dataProduct(y, missing)))
		c.factors = append(c.factors, h)
	}
	for j, d := range data {
		if slices.Contains(missing, j) {
			continue
		}
		y := dataPoint(j)
		g := gf.div(gf.mul(column(j), dataProduct(y, missing)), rowProduct(y, rows))
		c.input(d, y, g, missing)
	}
	for i, row := range rows {
		x := parityPoint(row)
		c.input(parity[i], x, gf.div(dataProduct(x, missing), rowProduct(x, rows)), missing)
	}
	c.run()
}

// input adds the unit at point, with its factor, to the operation.
func (c *Coder) input(unit []byte, point, factor byte, missing []int) {
	c.in = append(c.in, unit)
	for i, p := range missing {
		c.coef = append(c.coef, gf.div(gf.mul(factor, c.factors[i]), dataPoint(p)^point))
	}
}

// dataProduct is Π(v + y(p)) and rowProduct Π(v + x(r)), both without the factor
// that is 0 where v itself is among the points.
func dataProduct(v byte, positions []int) byte {
	sum := 0
	for _, p := range positions {
		if d := v ^ dataPoint(p); d != 0 {
			sum += int(gf.log[d])
		}
	}
	return gf.exp[sum%order]
}

func rowProduct(v byte, rows []int) byte {
	sum := 0
	for _, r := range rows {
		if d := v ^ parityPoint(r); d != 0 {
			sum += int(gf.log[d])
		}
	}
	return gf.exp[sum%order]
}
