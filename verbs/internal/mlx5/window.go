// SPDX-License-Identifier: Apache-2.0

package mlx5

// Window is what a memory window is bound to: memory of a region, under a key of which the low byte is new.
type Window struct {
	Key, MR      uint32
	Addr, Length uint64
	// Start is the window's first address for those who have its key: Addr, or 0.
	Start uint64
	// Rights are LocalWrite, RemoteRead, RemoteWrite and RemoteAtomic.
	Rights uint32
	// QPN is the only queue pair that may use the window, or AnyQP.
	QPN uint32
}

// AnyQP is the number by which all queue pairs of the protection domain may use a key.
const AnyQP = 0xffffff

// MaxWindow is the length of the longest window: an entry of a list has no more.
const MaxWindow = 1 << 31

// Sizes of requests that change a window, in segments: the binding has a group of entries, of which one is used.
const (
	UnbindSegments = 1 + (umrControl+umrMkeyContext)/segment
	BindSegments   = UnbindSegments + EntryGroup
)

// Flags and masks of struct mlx5_wqe_umr_ctrl_seg, and flags of the context of a key behind it, that windows need.
const (
	umrCheckFree = 1 << 5
	umrCheckQPN  = 1 << 3

	umrMaskLength      = 1 << 0
	umrMaskStart       = 1 << 6
	umrMaskKey         = 1 << 13
	umrMaskQPN         = 1 << 14
	umrMaskLocalWrite  = 1 << 18
	umrMaskRemoteRead  = 1 << 19
	umrMaskRemoteWrite = 1 << 20
	umrMaskAtomic      = 1 << 21
	umrMaskRights      = umrMaskLocalWrite | umrMaskRemoteRead | umrMaskRemoteWrite | umrMaskAtomic

	contextFree = 1 << 6
)

// Bind binds a memory window, or unbinds it when the window has no length. The request's immediate is the window's key of before. What
// the masks exclude of the key's context keeps its old bytes in the queue, as libmlx5 leaves them.
func (r *Request) Bind(w *Window) {
	r.kind = Binding
	if w.Length == 0 {
		r.unbind(w.Key, w.QPN)
		return
	}
	ctrl := r.umrControlSegment(EntryGroup, umrMaskFree|umrMaskKey|umrMaskLength|umrMaskStart|umrMaskRights)
	if w.QPN != AnyQP {
		// Such a window must be unbound before it is bound again.
		ctrl[0] |= umrCheckFree
		be.PutUint64(ctrl[8:], be.Uint64(ctrl[8:])|umrMaskQPN)
	}
	head, place := r.umrContextSegments(w.QPN, w.Key)
	head[0], head[2] = 0, uint8(w.Rights>>8)
	be.PutUint64(place, w.Start)
	be.PutUint64(place[8:], w.Length)
	r.Data(w.Addr, uint32(w.Length), w.MR)
	for range EntryGroup - 1 {
		clear(r.next())
	}
}

// Invalidate makes a key unusable. The request's immediate is the key.
func (r *Request) Invalidate() {
	r.kind = Invalidation
	r.unbind(0, 0)
}

// unbind frees a key. One that belongs to a queue pair (qpn isn't AnyQP) is freed by that one alone.
func (r *Request) unbind(key, qpn uint32) {
	ctrl := r.umrControlSegment(0, umrMaskFree|umrMaskKey)
	if qpn != AnyQP {
		ctrl[0] |= umrCheckQPN
		be.PutUint64(ctrl[8:], be.Uint64(ctrl[8:])|umrMaskQPN)
	}
	head, _ := r.umrContextSegments(AnyQP, key)
	head[0] = contextFree
}

// umrControlSegment adds the control segment of a change to so many entries.
func (r *Request) umrControlSegment(entries int, mask uint64) []byte {
	ctrl := r.next()
	clear(ctrl)
	for range umrControl/segment - 1 {
		clear(r.next())
	}
	ctrl[0] = umrInline | umrTranslationOffset
	be.PutUint16(ctrl[4:], uint16(entries))
	be.PutUint64(ctrl[8:], mask)
	return ctrl
}

// umrContextSegments adds the context of a key: its first segment, and the one of its address and length.
func (r *Request) umrContextSegments(qpn, key uint32) (head, place []byte) {
	head, place = r.next(), r.next()
	for range umrMkeyContext/segment - 2 {
		r.next()
	}
	be.PutUint32(head[4:], qpn<<8|key&0xff)
	return head, place
}
