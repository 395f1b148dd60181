// SPDX-License-Identifier: Apache-2.0

package mlx5

// CapsAnswer is the size of the answer of QueryCaps.
const CapsAnswer = 16 + 4096

// QueryCaps is the firmware command QUERY_HCA_CAP for the general capabilities, as they are now.
func QueryCaps() []byte {
	const opQueryCaps, opMod, current = 0x100, 6, 1
	in := make([]byte, 16)
	be.PutUint16(in, opQueryCaps)
	be.PutUint16(in[opMod:], current)
	return in
}

// OutOfOrder reads from the answer which types of queue pairs may take receives out of order (dp_ordering_ooo_all_* of struct
// mlx5_ifc_cmd_hca_cap_bits).
func OutOfOrder(answer []byte) (rc, uc, ud bool) {
	const header, bits = 16, 0x330 / 8
	b := answer[header+bits]
	return b&(1<<3) != 0, b&(1<<6) != 0, b&(1<<7) != 0
}
