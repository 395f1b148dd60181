// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
)

// stranger is a UDP socket that sends whatever it likes to a device.
type stranger struct {
	t    testing.TB
	fd   int
	from netip.AddrPort
	to   netip.AddrPort
	sent uint64
}

// newStranger makes one that sends from the address from to d.
func newStranger(t testing.TB, from netip.Addr, d *Device) *stranger {
	t.Helper()
	fd, err := newSocket(from.Is6())
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	require.NoError(t, bind(fd, from, 0, 0))
	port, err := boundPort(fd)
	require.NoError(t, err)
	return &stranger{t: t, fd: fd, from: netip.AddrPortFrom(from, port), to: d.Addr()}
}

func (s *stranger) flow() roce.Flow {
	f, err := roce.NewFlow(s.from, s.to)
	require.NoError(s.t, err)
	return f
}

// send sends b as it is.
func (s *stranger) send(b []byte) {
	s.t.Helper()
	require.NoError(s.t, unix.Sendto(s.fd, b, 0, sockaddr(s.to.Addr(), s.to.Port(), 0)))
	s.sent++
}

// seal makes the ICRC of b right and sends it.
func (s *stranger) seal(b []byte) {
	s.t.Helper()
	s.flow().Seed(len(b)).Seal(b)
	s.send(b)
}

// encode returns a packet with headers p and n bytes of payload.
func encode(t testing.TB, p roce.Packet, n int) []byte {
	t.Helper()
	p.Payload = make([]byte, n)
	for i := range p.Payload {
		p.Payload[i] = byte(i) | 1
	}
	b := make([]byte, p.Size())
	_, err := p.Encode(b)
	require.NoError(t, err)
	return b
}

// validWrite returns the headers of a write of n bytes that the device of e accepts.
func (e *side) validWrite(rkey uint32, va uint64, n int) roce.Packet {
	return roce.Packet{
		Opcode: roce.UCWriteOnlyImm, DestQP: roce.QPN(e.qp.Info().QPN), PSN: 7, PKey: roce.DefaultPKey,
		VA: va, RKey: rkey, DMALength: uint32(n), Imm: 0x01020304,
	}
}

// drops returns the non-zero drop counters by name.
func drops(d *Device) map[string]uint64 {
	m := map[string]uint64{}
	for r, n := range d.Stats().Drops {
		if n != 0 {
			m[backend.DropReason(r).String()] = n
		}
	}
	return m
}
