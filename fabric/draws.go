// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/internal/netsim"
)

// draws is the state of a generator, SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
// Each port and each switch has one of its own for each purpose, so that what one draws moves nothing else.
type draws uint64

// The purposes, as ASCII.
const (
	forMarks  = 0x7265640000000000 // "red"
	forRoutes = 0x726f7574650000   // "route"
	forHashes = 0x68617368000000   // "hash"
	forForced = 0x666f726365640000 // "forced"
)

// seedOf is where the generator, or the hash, of port or switch i begins.
func seedOf(run, purpose uint64, i int) uint64 {
	return netsim.Mix(netsim.Mix(run^purpose) + uint64(i))
}

const golden = 0x9e3779b97f4a7c15 // 2^64/φ, odd: SplitMix64's increment

// next draws 64 bits.
func (d *draws) next() uint64 {
	*d += golden
	return netsim.Mix(uint64(*d))
}

// below draws a number below n.
func (d *draws) below(n int) int {
	hi, _ := bits.Mul64(d.next(), uint64(n))
	return int(hi)
}
