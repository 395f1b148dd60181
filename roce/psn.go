// SPDX-License-Identifier: Apache-2.0

package roce

// A PSN is a 24-bit packet sequence number. It wraps, so it is compared with serial arithmetic only:
// of two different PSNs, the one less than half the number space ahead is the later one (IBTA 9.7.1).
// Every function here ignores bits above the 24th of its operands and returns a value below 2^24.
type PSN uint32

const (
	// PSNMask covers the bits of a PSN.
	PSNMask = 1<<24 - 1

	psnShift = 32 - 24 // moves a PSN's sign to that of an int32
)

// Add returns p+n modulo 2^24; n may be negative.
func (p PSN) Add(n int) PSN { return PSN(uint32(p)+uint32(n)) & PSNMask }

// Next returns p+1 modulo 2^24.
func (p PSN) Next() PSN { return (p + 1) & PSNMask }

// Diff returns the signed distance from q to p, p-q, in [-2^23, 2^23).
func (p PSN) Diff(q PSN) int { return int(int32(uint32(p-q)<<psnShift) >> psnShift) }

// Less reports whether p comes before q. PSNs exactly half the number space apart come before each
// other.
func (p PSN) Less(q PSN) bool { return p.Diff(q) < 0 }

// InWindow reports whether p is one of the n PSNs from first on: first, first+1, …, first+n-1.
func (p PSN) InWindow(first PSN, n uint32) bool { return uint32(p-first)&PSNMask < n }
