// SPDX-License-Identifier: Apache-2.0

package mlx5

import "math/bits"

// Rights of a memory key, as its context has them.
const (
	LocalRead    = 1 << 10
	LocalWrite   = 1 << 11
	RemoteRead   = 1 << 12
	RemoteWrite  = 1 << 13
	RemoteAtomic = 1 << 14
)

// MkeyContext says what indirect memory key is made (struct mlx5_ifc_mkc_bits). All of it is at addresses from 0 on.
type MkeyContext struct {
	PD     uint32 // the protection domain's number
	Rights uint32
	// Entries is the room for translation entries, a multiple of EntryGroup.
	Entries uint32
	// EntrySize is the size of all entries, a power of two (KSM), or 0 when each has its own (KLM).
	EntrySize uint64
	// Length is how many bytes the key has.
	Length uint64
	// Variant is the low byte of the key, the user's.
	Variant uint8
}

// EntryGroup is how many translation entries change at a time: those in 64 bytes (MLX5_UMR_FLEX_ALIGNMENT of the
// kernel).
const EntryGroup = 4

// Sizes of the command that creates a key, without a list of entries, and of its answer; and of the command's
// parts (struct mlx5_ifc_create_mkey_in_bits).
const (
	createMkeySize   = 0x110
	CreateMkeyAnswer = 16

	opCreateMkey = 0x200
	mkeyContext  = 16
)

// Bits of the first word of the context (its bit 31 is the specification's bit 0).
const (
	mkeyFree     = 1 << 30
	mkeyUMR      = 1 << 15
	modeKLM      = 2 << 8
	modeKSM      = 3 << 8
	mkeyNoQP     = 0xffffff << 8
	mkeyLength64 = 1 << 31
)

// CreateMkey is the firmware command CREATE_MKEY for a key that no access may use before an update has enabled it.
func CreateMkey(c *MkeyContext) []byte {
	in := make([]byte, createMkeySize)
	be.PutUint16(in, opCreateMkey)
	mkc := in[mkeyContext:]
	put := func(word int, v uint32) { be.PutUint32(mkc[4*word:], v) }
	mode := uint32(modeKLM)
	if c.EntrySize != 0 {
		mode = modeKSM
		put(14, uint32(bits.TrailingZeros64(c.EntrySize))) // log_entity_size
	}
	put(0, mkeyFree|mkeyUMR|c.Rights|mode)
	put(1, mkeyNoQP|uint32(c.Variant))
	put(3, c.PD)
	be.PutUint64(mkc[24:], c.Length)
	put(13, c.Entries)
	return in
}

// CreatedMkey reads the answer of CreateMkey: the key, whose low byte is the variant.
func CreatedMkey(out []byte, variant uint8) uint32 { return be.Uint32(out[8:])<<8 | uint32(variant) }

// Parts of a UMR request, in bytes.
const (
	umrControl     = 48
	umrMkeyContext = 64
)

// UpdateSegments is the size of an update of so many entries.
func UpdateSegments(entries int) int {
	return 1 + (umrControl+umrMkeyContext)/segment + entries
}

// Flags and masks of struct mlx5_wqe_umr_ctrl_seg.
const (
	umrInline            = 1 << 7
	umrTranslationOffset = 1 << 4
	umrMaskFree          = 1 << 29
)

// MaxFirst is the number of the first entry that an update can't name: the offset has 16 bits here.
const MaxFirst = 1 << 16

// Update begins the change of so many of a key's entries, from first on, which Entry adds: groups of EntryGroup. With
// enable the key may be used afterwards. The request's immediate is the key.
func (r *Request) Update(key uint32, first, entries int, enable bool) {
	for range (umrControl + umrMkeyContext) / segment {
		clear(r.next())
	}
	ctrl := r.at(1)
	ctrl[0] = umrInline | umrTranslationOffset
	be.PutUint16(ctrl[4:], uint16(entries))
	be.PutUint16(ctrl[6:], uint16(first))
	if enable {
		be.PutUint64(ctrl[8:], umrMaskFree)
	}
	be.PutUint32(r.at(1 + umrControl/segment)[4:], mkeyNoQP|key&0xff)
}

// Entry adds an entry: so many bytes of another key's memory. The number of bytes counts where entries have sizes of
// their own.
func (r *Request) Entry(addr uint64, length, key uint32) { putData(r.next(), addr, length, key) }
