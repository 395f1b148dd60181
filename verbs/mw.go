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

	mu     sync.Mutex
	rkey   uint32 // of the last binding asked for
	posted uint32 // of the last binding posted
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
	w := &MW{object: o, handle: out.MwHandle, kind: kind, rkey: out.Rkey, posted: out.Rkey}
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
// n = 0 unbinds one of type 1, for which mr may be nil. The region must have been registered with AccessMWBind. Post it on a QP of the
// same PD (RC or UC; RC alone for type 2); one that is never posted changes nothing. A type 2 window is then that QP's, and is bound
// again only after OpLocalInv, or the peer's OpSendWithInv, has freed it. On mlx5 a window has at most 2 GiB, and a binding takes three
// blocks of 64 bytes of the send queue, as much as a request with 128 bytes of inline data.
func (w *MW) BindWR(mr *MR, off, n int, access Access) (SendWR, error) {
	if bad := w.checkBinding(mr, off, n, access); bad != "" {
		return SendWR{}, &Error{Op: "bind", Object: w.String(), Err: unix.EINVAL, Fix: bad}
	}
	b := &MWBind{Type: w.kind, Length: uint64(n), Access: access, mw: w}
	if mr != nil {
		b.MRLKey, b.Addr = mr.lkey, mr.iova+uint64(off)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// The low byte of a key is the consumer's (IBTA volume 1, 10.6.7.2): every binding gets another.
	b.OldRKey = w.rkey
	w.rkey = w.rkey&^0xff | (w.rkey+1)&0xff
	b.NewRKey = w.rkey
	return SendWR{Opcode: OpBindMW, Bind: b}, nil
}

// checkBinding finds what would be wrong with a binding.
func (w *MW) checkBinding(mr *MR, off, n int, access Access) string {
	switch {
	case w.kind == MWType2 && n == 0: // IBTA volume 1, o10-37.2.40
		return "a type 2 window isn't unbound: OpLocalInv, or the peer's OpSendWithInv, frees it"
	case w.kind == MWType1 && access&AccessZeroBased != 0: // IBTA volume 1, o10-36.2.2
		return "only a type 2 window can have addresses from 0 on"
	case mr == nil && (off != 0 || n != 0):
		return "no MR is given: only unbinding (n = 0) needs none"
	case mr == nil:
		return ""
	case mr.ctx != w.ctx:
		return "the MR given belongs to another open device"
	case off < 0 || n < 0 || off > mr.size || n > mr.size-off:
		return fmt.Sprintf("%d bytes from %d are outside the region of %d", n, off, mr.size)
	}
	return ""
}

// post is the key that the binding replaces, which rxe compares with the window's. It is called when the request takes its place in a
// queue.
func (b *MWBind) post() (old uint32) {
	if b.mw == nil {
		return b.OldRKey
	}
	b.mw.mu.Lock()
	defer b.mw.mu.Unlock()
	old = b.mw.posted
	b.mw.posted = b.NewRKey
	return old
}

// Close deallocates the window, bound or not.
func (w *MW) Close() error {
	return w.close("deallocate MW", func() error {
		call := uapi.NewCall(&uapi.UVERBS_METHOD_MW_DESTROY)
		call.PutHandle(uapi.UVERBS_ATTR_DESTROY_MW_HANDLE, w.handle)
		return w.ctx.do(call)
	})
}
