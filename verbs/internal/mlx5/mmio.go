// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package mlx5

import (
	"math/bits"
	"unsafe"
)

// ring writes a doorbell record and then, with one store, a register of the device. Both values are in the
// order of memory. What was written to memory before is visible to the device first.
//
// It is assembly because Go has no store for it: a plain one may be split, merged or moved by the compiler, and
// one of sync/atomic is a locked exchange on amd64, which a device must not be given.
//
//go:noescape
func ring(record *uint32, count uint32, register *uint64, doorbell uint64)

// announce writes a doorbell record before a request is copied into a register; flush pushes the copy out of the processor's
// buffers.
//
//go:noescape
func announce(record *uint32, count uint32)

func flush()

// copyBlock copies a block into a register, in as few stores as the processor has for it, which it may combine into one.
//
//go:noescape
func copyBlock(register, block *[BlockSize]byte)

// store writes a doorbell record behind all that was written to memory before.
//
//go:noescape
func store(record *uint32, value uint32)

// load reads what the device writes; what is read afterwards is not older.
//
//go:noescape
func load(p *uint32) uint32

// word is the 4 bytes at an offset.
func word(b []byte, off int) *uint32 { return (*uint32)(unsafe.Pointer(&b[off : off+4][0])) }

// swap32 and swap64 turn a number into what memory has of it in big endian.
func swap32(v uint32) uint32 { return bits.ReverseBytes32(v) }
func swap64(v uint64) uint64 { return bits.ReverseBytes64(v) }

// Page is a doorbell page of the device (UAR), mapped.
type Page struct{ mem []byte }

// NewPage takes a mapping of at least 4096 bytes.
func NewPage(mem []byte) Page { return Page{mem[:pageSize]} }

const pageSize = 4096

// Registers of a page.
const (
	cqRegister   = 0x20
	sendRegister = 0x800
)

func (p Page) register(off int) *uint64 { return (*uint64)(unsafe.Pointer(&p.mem[off : off+8][0])) }

func (p Page) buffer(off int) *[BlockSize]byte { return (*[BlockSize]byte)(p.mem[off : off+BlockSize]) }

// MaxFlames is the room that a page has for BlueFlame buffers, in bytes.
const MaxFlames = pageSize - sendRegister

// Record is a doorbell record: 8 bytes of pinned memory, aligned, in a cache line of its own.
type Record struct{ mem []byte }

// NewRecord takes 8 bytes.
func NewRecord(mem []byte) Record { return Record{mem[:8]} }

// Clear zeroes the record, before the device knows it.
func (r Record) Clear() { clear(r.mem) }

// The words of a record.
const (
	recvCounter = 0 // of a QP: receive requests posted
	sendCounter = 4 // of a QP: blocks posted
	consumed    = 0 // of a CQ: its consumer index
	armed       = 4 // of a CQ: the last request for an event
)
