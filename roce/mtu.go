// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/units"
)

// An MTU is a path MTU: the largest payload of a packet, without headers. The values are those of the
// verbs' enum ibv_mtu and of IBTA's MTU fields; 0 is not one of them.
type MTU uint8

// The path MTUs there are.
const (
	MTU256 MTU = iota + 1
	MTU512
	MTU1024
	MTU2048
	MTU4096

	minMTU = 256
	maxMTU = 4096
)

// Valid reports whether m is one of the five path MTUs.
func (m MTU) Valid() bool { return m >= MTU256 && m <= MTU4096 }

// Bytes returns the payload size that m stands for, 0 if m isn't valid.
func (m MTU) Bytes() units.Bytes {
	if !m.Valid() {
		return 0
	}
	return minMTU << (m - MTU256)
}

// String returns m in bytes, such as "1024".
func (m MTU) String() string {
	if !m.Valid() {
		return fmt.Sprintf("MTU(%d)", uint8(m))
	}
	return fmt.Sprint(int64(m.Bytes()))
}

// MTUOf returns the path MTU whose payload is exactly b.
func MTUOf(b units.Bytes) (MTU, error) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == b {
			return m, nil
		}
	}
	return 0, fmt.Errorf("roce: path MTU of %d bytes: choose 256, 512, 1024, 2048 or 4096", int64(b))
}

// LargestMTU returns the largest path MTU whose RDMA WRITE Only with Immediate packets fit an
// interface MTU (the largest IP packet), or false if even MTU256 doesn't.
func LargestMTU(ifaceMTU units.Bytes, ipv6 bool) (MTU, bool) {
	for m := MTU4096; m >= MTU256; m-- {
		if m.InterfaceMTU(ipv6) <= ifaceMTU {
			return m, true
		}
	}
	return 0, false
}

// InterfaceMTU returns the interface MTU that a full RDMA WRITE Only with Immediate packet needs.
func (m MTU) InterfaceMTU(ipv6 bool) units.Bytes {
	if ipv6 {
		return m.Bytes() + IPv6WriteImmOverhead
	}
	return m.Bytes() + IPv4WriteImmOverhead
}
