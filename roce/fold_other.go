// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package roce

import "hash/crc32"

// crcUpdate is crc32.Update of Ethernet's polynomial.
func crcUpdate(crc uint32, p []byte) uint32 { return crc32.Update(crc, crc32.IEEETable, p) }

// crcFetch is crcUpdate: there is no portable way to fetch next.
func crcFetch(crc uint32, p, _ []byte) uint32 { return crcUpdate(crc, p) }
