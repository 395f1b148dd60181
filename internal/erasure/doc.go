// SPDX-License-Identifier: Apache-2.0

// Package erasure computes parity units and the data units that were lost.
//
// A Coder works on byte slices that its caller owns. It writes only to the
// slices it is given for results, allocates nothing once it has grown to the
// largest job, and starts no goroutine: callers that want more cores run several
// Coders, one group each.
//
// # Codes
//
// A group has k data units, numbered from 0. A unit that is shorter than the
// group's unit length counts as if padded with zeros.
//
// XOR(m): parity row i is the sum (XOR) of the data units j with j mod m = i. It
// recovers one lost unit for each row.
//
// MDS: parity row i is the sum over the data units j of c(i, j)·d(j), byte by
// byte in GF(2^8) with the polynomial x^8+x^4+x^3+x^2+1 (0x11d), where
//
//	c(i, j) = (255 ⊕ j) / ((255 − i) ⊕ j),  0 ≤ j < k,  0 ≤ i ≤ 255 − k.
//
// This is the Cauchy matrix 1/(x(i) + y(j)) with x(i) = 255 − i and y(j) = j,
// its columns scaled so that row 0 is all ones. Every square part of such a
// matrix has an inverse, so any k of the data and parity units recover the rest.
// An element depends neither on k nor on how many rows there are: any rows up to
// 255 − k can be computed later, and both ends agree on them. The matrix is part
// of the protocol and must not change; a test holds its values.
//
// # Speed
//
// Both codes are one operation, results = coefficients × inputs, for which there
// are two implementations: a loop over AVX-512 registers with GFNI, which reads
// each input once for eight results, and the multiplications of
// klauspost/reedsolomon (AVX2, SSSE3, NEON or plain Go) elsewhere. That package's
// own encoders reach GFNI only for ten inputs at a time, or by starting
// goroutines and allocating, and to decode they invert a k×k matrix; the
// coefficients that decoding needs have a closed form here (decode.go).
package erasure
