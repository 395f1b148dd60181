// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"sync"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// MWType is the type of a memory window (enum ibv_mw_type).
type MWType uint8

// Types of memory windows. A type 1 window belongs to its PD; a type 2 window to the QP that binds it.
const (
	MWType1 MWType = 1
	MWType2 MWType = 2
)

// MW is a memory window: a key of its own to a part of a memory region, bound and unbound by work
// requests instead of calls to the kernel.
type MW struct {
	object
	handle uint32
	kind   MWType

	mu   sync.Mutex
	rkey uint32 // of the last binding asked for
}

// AllocMW makes an unbound window. Devices without windows answer EOPNOTSUPP (see DeviceCaps).
func (p *PD) AllocMW(kind MWType) (*MW, error) {
	o, err := p.ctx.attach("MW", &p.object)
	if err != nil {
		return nil, err
	}
	in := uapi.AllocMw{PdHandle: p.handle, MwType: uint8(kind)}
	var out uapi.AllocMwResp
	if err := write(p.ctx, uapi.IB_USER_VERBS_CMD_ALLOC_MW, &in, &out); err != nil {
		o.abandon()
		return nil, wrap("allocate MW", fmt.Sprintf("%s, type %d", p.ctx.info.Name, kind), err)
	}
	w := &MW{object: o, handle: out.MwHandle, kind: kind, rkey: out.Rkey}
	p.ctx.publish(w)
	return w, nil
}

// RKey is the key of the last binding that BindWR asked for; it works once that request has completed.
func (w *MW) RKey() uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rkey
}

// BindWR makes the send request that binds the window to n bytes of mr from off, under a new key;
// n = 0 unbinds it. The region must have been registered with AccessMWBind. Post it on a QP of the
// same PD (RC or UC; RC alone for type 2). A type 2 window is then that QP's, and is bound again only after OpLocalInv,
// or the peer's OpSendWithInv, has freed it. On mlx5 a window has at most 2 GiB, and a binding takes three blocks of 64 bytes
// of the send queue, as much as a request with 128 bytes of inline data.
func (w *MW) BindWR(mr *MR, off, n int, access Access) (SendWR, error) {
	if mr.ctx != w.ctx {
		return SendWR{}, &Error{Op: "bind MW", Object: w.String(), Err: unix.EINVAL, Fix: "the MR given belongs to another open device"}
	}
	if off < 0 || n < 0 || off > mr.size || n > mr.size-off {
		return SendWR{}, &Error{Op: "bind MW", Object: w.String(), Err: unix.EINVAL,
			Fix: fmt.Sprintf("%d bytes from %d are outside the region of %d", n, off, mr.size)}
	}
	if w.kind == MWType1 && access&AccessZeroBased != 0 { // IBTA volume 1, o10-36.2.2
		return SendWR{}, &Error{Op: "bind MW", Object: w.String(), Err: unix.EINVAL, Fix: "only a type 2 window can have addresses from 0 on"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// The low byte of a key is the consumer's (IBTA volume 1, 10.6.7.2): every binding gets another.
	old := w.rkey
	w.rkey = old&^0xff | (old+1)&0xff
	return SendWR{Opcode: OpBindMW, Bind: &MWBind{
		Type:    w.kind,
		OldRKey: old, NewRKey: w.rkey, MRLKey: mr.lkey, Addr: mr.iova + uint64(off), Length: uint64(n), Access: access,
	}}, nil
}

// Close deallocates the window, bound or not.
func (w *MW) Close() error {
	return w.close("deallocate MW", func() error {
		call := uapi.NewCall(&uapi.UVERBS_METHOD_MW_DESTROY)
		call.PutHandle(uapi.UVERBS_ATTR_DESTROY_MW_HANDLE, w.handle)
		return w.ctx.do(call)
	})
}
