// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import "golang.org/x/sys/unix"

// setOrder reads the driver's part of MODIFY_QP (struct mlx5_ib_modify_qp): whether receives may be taken out of order.
func (q *queuePair) setOrder(r *request, to qpState) unix.Errno {
	const outOfOrder = 1
	switch mask := le.Uint32(r.in(uhwIn, 16)); {
	case mask == 0:
		return 0
	case mask != outOfOrder || to != stateInit || q.ctx.device.noDEVX:
		return unix.EOPNOTSUPP
	}
	q.outOfOrder = true
	return 0
}

// capsOutOfOrder puts into the answer of QUERY_HCA_CAP that UD, UC and RC queue pairs may take receives out of order
// (dp_ordering_ooo_all_* of struct mlx5_ifc_cmd_hca_cap_bits).
func capsOutOfOrder(answer []byte) {
	const header, bits, ud, uc, rc = 16, 0x330 / 8, 1 << 7, 1 << 6, 1 << 3
	if len(answer) > header+bits {
		answer[header+bits] = ud | uc | rc
	}
}

// nextReceive is the counter of the request to take next.
func (q *queuePair) nextReceive() (counter uint16, ok bool) {
	if s := q.skipped; s != nil {
		q.skipped = nil
		return *s, true
	}
	n := q.received()
	if n == 0 {
		return 0, false
	}
	if q.outOfOrder && uint32(n) > q.rqEntries/2 && q.rqEntries > 1 {
		q.ctx.device.violation("QP %#x: %d receives are posted in a queue of %d: half its places must be free when they are taken out of order", q.number, n, q.rqEntries)
	}
	oldest := q.rqTaken
	q.rqTaken++
	if q.outOfOrder && n > 1 {
		q.skipped = &oldest
		q.rqTaken++
		return oldest + 1, true
	}
	return oldest, true
}
