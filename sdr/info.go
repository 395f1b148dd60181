// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// Info is what a peer needs to connect to a QP: an opaque, versioned blob to be
// exchanged out of band (package oob does it over TCP).
type Info []byte

const (
	infoMagic   = 0x53445249 // "SDRI"
	infoVersion = 1
	infoFixed   = 64
)

// peerInfo is a decoded Info.
type peerInfo struct {
	connID     uint64
	mtu        units.Bytes
	channels   int
	gens       int
	split      Split
	maxMessage units.Bytes
	rootKey    bool
	fullSeq    bool
	rkey       uint32
	recvBurst  units.Bytes
	control    backend.QPInfo
	chans      []backend.QPInfo // generation-major
}

// Addr is the address of the peer's device.
func (i Info) Addr() (netip.Addr, error) {
	p, err := parseInfo(i)
	if err != nil {
		return netip.Addr{}, &OpError{Op: "parse", Object: "info", Err: err}
	}
	return p.control.Addr, nil
}

// name is what errors call the peer: by the address of its device, as one that has many peers wants to know.
func (p *peerInfo) name() string {
	if !p.control.Addr.IsValid() || p.control.Addr.IsUnspecified() {
		return "the peer"
	}
	return "the peer at " + netip.AddrPortFrom(p.control.Addr, p.control.Port).String()
}

// encode lays the blob out as docs/wire.md says.
func (p *peerInfo) encode() Info {
	b := binary.BigEndian.AppendUint32(nil, infoMagic)
	b = append(b, infoVersion, p.split.SlotBits, p.split.OffsetBits, p.split.FragmentBits)
	b = append(b, byte(p.channels%maxChannels), byte(p.gens), bool8(p.rootKey), bool8(p.fullSeq))
	b = binary.BigEndian.AppendUint32(b, uint32(p.mtu))
	b = binary.BigEndian.AppendUint64(b, p.connID)
	b = binary.BigEndian.AppendUint64(b, uint64(p.maxMessage))
	b = binary.BigEndian.AppendUint64(b, uint64(p.recvBurst))
	b = binary.BigEndian.AppendUint32(b, p.rkey)
	b = append(b, make([]byte, infoFixed-len(b))...)
	b = p.control.Append(b)
	for _, c := range p.chans {
		b = c.Append(b)
	}
	return b
}

func bool8(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// parseInfo decodes a blob, which may come from anywhere.
func parseInfo(b Info) (*peerInfo, error) {
	if len(b) < infoFixed+backend.QPInfoSize || binary.BigEndian.Uint32(b) != infoMagic {
		return nil, fmt.Errorf("%w: this is not the info of an sdr QP", ErrMismatch)
	}
	if b[4] != infoVersion {
		return nil, fmt.Errorf("%w: the peer's info has version %d, ours is %d: install the same release at both ends", ErrMismatch, b[4], infoVersion)
	}
	p := &peerInfo{
		split:      Split{SlotBits: b[5], OffsetBits: b[6], FragmentBits: b[7]},
		channels:   int(b[8]-1) + 1, // 0 stands for 256
		gens:       int(b[9]),
		rootKey:    b[10] == 1,
		fullSeq:    b[11] == 1,
		mtu:        units.Bytes(binary.BigEndian.Uint32(b[12:])),
		connID:     binary.BigEndian.Uint64(b[16:]),
		maxMessage: units.Bytes(binary.BigEndian.Uint64(b[24:])),
		recvBurst:  units.Bytes(binary.BigEndian.Uint64(b[32:])),
		rkey:       binary.BigEndian.Uint32(b[40:]),
	}
	rest := b[infoFixed:]
	if len(rest) != backend.QPInfoSize*(1+p.channels*p.gens) || p.recvBurst < 0 {
		return nil, fmt.Errorf("%w: the peer's info is cut or too long", ErrMismatch)
	}
	var err error
	if p.control, err = backend.ParseQPInfo(rest); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMismatch, err)
	}
	for rest = rest[backend.QPInfoSize:]; len(rest) > 0; rest = rest[backend.QPInfoSize:] {
		c, err := backend.ParseQPInfo(rest)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMismatch, err)
		}
		if c.Addr != p.control.Addr { // the connection check comes on one channel, and says nothing of where the others lead
			return nil, fmt.Errorf("%w: the peer's info names %v and %v, and a device has one address", ErrMismatch, p.control.Addr, c.Addr)
		}
		p.chans = append(p.chans, c)
	}
	return p, nil
}

// matches compares what both sides must have in common.
func (p *peerInfo) matches(c *QPConfig) error {
	for _, x := range []struct {
		what       string
		ours, peer any
	}{
		{"MTU", c.MTU, p.mtu},
		{"number of channels", c.Channels, p.channels},
		{"number of generations", c.Generations, p.gens},
		{"immediate split", c.Split, p.split},
		{"largest message", c.MaxMessage, p.maxMessage},
	} {
		if x.ours != x.peer {
			return fmt.Errorf("%w: %s is %v here and %v at the peer: give both ends the same", ErrMismatch, x.what, x.ours, x.peer)
		}
	}
	return nil
}

// rootVA is the address of byte 0 of message n at the peer.
func (p *peerInfo) rootVA(t backend.TableConfig, n uint64) uint64 {
	return backend.RootVA(backend.Caps{FullSequence: p.fullSeq}, t, n)
}
