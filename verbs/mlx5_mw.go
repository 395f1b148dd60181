// SPDX-License-Identifier: Apache-2.0

package verbs

import "github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"

// mlx5Rights are rights as memory keys have them; the right to read locally is not among them.
func mlx5Rights(a Access) (rights uint32) {
	if a&AccessLocalWrite != 0 {
		rights |= mlx5.LocalWrite
	}
	if a&AccessRemoteWrite != 0 {
		rights |= mlx5.RemoteWrite
	}
	if a&AccessRemoteRead != 0 {
		rights |= mlx5.RemoteRead
	}
	if a&AccessRemoteAtomic != 0 {
		rights |= mlx5.RemoteAtomic
	}
	return rights
}

// checkWindow finds what would be wrong with a binding or an invalidation that checkSend has passed.
func (m *mlx5QP) checkWindow(wr *SendWR) string {
	switch {
	case wr.Opcode == OpBindMW && wr.Bind.Length > mlx5.MaxWindow:
		return "a memory window has at most 2 GiB"
	case !m.sq.Holds(m.segments(wr)):
		return "the send queue is too small for the change of a memory window: make the QP with more MaxSendWR or MaxInline"
	}
	return ""
}

func (m *mlx5QP) bind(r *mlx5.Request, b *MWBind) {
	w := mlx5.Window{Key: b.NewRKey, MR: b.MRLKey, Addr: b.Addr, Length: b.Length, Start: b.Addr, Rights: mlx5Rights(b.Access), QPN: mlx5.AnyQP}
	if b.Access&AccessZeroBased != 0 {
		w.Start = 0
	}
	if b.Type == MWType2 {
		w.QPN = m.q.num
	}
	r.Bind(&w)
}
