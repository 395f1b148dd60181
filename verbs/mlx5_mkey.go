// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/verbs/internal/mlx5"
	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// mlx5Mkey is an indirect key, made by a firmware command.
type mlx5Mkey struct {
	m      *Mkey
	handle uint32
}

// variants number the low bytes of keys, which are the user's: a key that comes after another in the same place differs.
var variants atomic.Uint32

func (k *mlx5Mkey) create() error {
	a := &k.m.attr
	rights := mlx5.LocalRead | mlx5Rights(a.Access)
	variant := uint8(variants.Add(1))
	in := mlx5.CreateMkey(&mlx5.MkeyContext{PD: k.m.pd.number, Rights: rights, Entries: uint32(a.Entries), EntrySize: a.EntrySize,
		Length: a.Length, Variant: variant})
	out := make([]byte, mlx5.CreateMkeyAnswer)
	call := uapi.NewCall(&uapi.MLX5_IB_METHOD_DEVX_OBJ_CREATE)
	call.PutNew(uapi.MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
	uapi.PutInBytes(call, uapi.MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN, in)
	uapi.PutOutSlice(call, uapi.MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, out)
	if err := k.m.ctx.do(call); err != nil {
		return err
	}
	k.handle = call.Result(uapi.MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE)
	k.m.key = mlx5.CreatedMkey(out, variant)
	return nil
}

func (*mlx5Mkey) fill(*uapi.Call) {}
func (*mlx5Mkey) made() error     { return nil }

func (k *mlx5Mkey) free() error {
	call := uapi.NewCall(&uapi.MLX5_IB_METHOD_DEVX_OBJ_DESTROY)
	call.PutHandle(uapi.MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, k.handle)
	return k.m.ctx.do(call)
}

func (p *mlx5Provider) nullKey() (uint32, bool) {
	return p.resp.DumpFillMkey, p.resp.CompMask&uapi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY != 0
}

func (m *mlx5QP) updateMkeys(updates []MkeyUpdate) (n int, err error) {
	for n = range updates {
		u := &updates[n]
		if bad := m.checkUpdate(u); bad != "" {
			err = &PostError{Index: n, Err: bad}
			break
		}
		if !m.sq.HasRoom(mlx5.UpdateSegments(len(u.Entries))) {
			err = ErrQueueFull
			break
		}
		r := m.sq.Begin()
		r.Update(u.Mkey.key, u.First, len(u.Entries), u.Enable)
		for i := range u.Entries {
			e := &u.Entries[i]
			r.Entry(e.Addr, e.Length, e.Key)
		}
		var flags uint8
		if m.signalAll || u.Signaled {
			flags = mlx5.Signaled
		}
		r.End(u.WRID, mlx5.OpUMR, flags, u.Mkey.key)
	}
	if err == nil {
		n = len(updates)
	}
	if n > 0 {
		m.sq.Ring()
	}
	return n, err
}

func (m *mlx5QP) checkUpdate(u *MkeyUpdate) string {
	switch {
	case u.Mkey == nil || u.Mkey.ctx != m.q.ctx:
		return "no Mkey of this device"
	case len(u.Entries) == 0 || len(u.Entries)%MkeyGroup != 0 || u.First%MkeyGroup != 0:
		return "entries change in groups of MkeyGroup"
	case u.First < 0 || u.First+len(u.Entries) > u.Mkey.attr.Entries:
		return "entries outside the Mkey's list"
	case mlx5.UpdateSegments(len(u.Entries)) > min(mlx5MaxSegments, int(m.p.resp.MaxSqDescSz)/mlx5Segment):
		return "more entries than a request holds"
	case !m.sq.Holds(mlx5.UpdateSegments(len(u.Entries))):
		return "the send queue is too small for so many entries: make the QP with more MaxSendWR or MaxInline"
	case u.First >= mlx5.MaxFirst:
		return "an update begins below entry 65536"
	}
	return ""
}
