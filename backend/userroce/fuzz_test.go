// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// fuzzTarget is a device with a connected queue pair, a UD queue pair and three posted messages, into
// whose receive path packets are fed without a socket.
type fuzzTarget struct {
	*side
	r      *receiver
	ud     backend.QP
	rkey   uint32
	canary []byte // the memory as it was

	messages [len(fuzzMessages)]fuzzMessage
}

// fuzzMessage is a message of a slot: at sequence seq, exposing part of the memory if posted.
type fuzzMessage struct {
	seq, off, length uint64
	posted           bool
}

const (
	fuzzMemory = 16 << 10
	fuzzMTU    = 1024
)

// fuzzMessages are those posted at first.
var fuzzMessages = [3]fuzzMessage{{3, 256, 1000, true}, {4, 2048, 4096, true}, {1<<50 + 5, 8192, 0, true}}

func newFuzzTarget(t testing.TB, change ...func(a, b *sideConfig)) *fuzzTarget {
	a, b := newPair(t, false, append(change, func(a, b *sideConfig) { a.mtu, b.mtu = fuzzMTU, fuzzMTU })...)
	f := &fuzzTarget{side: b, r: b.d.receivers[0], ud: b.newUD(), rkey: b.table.Root()}
	f.mem = f.mem[:fuzzMemory]
	fill(f.mem, 9)
	f.canary = bytes.Clone(f.mem)
	var name sockName
	name.put(a.d.addr, 0xc000, 0)
	f.r.flows.use(&name, f.d)
	return f
}

// reset posts fuzzMessages, and nothing else.
func (f *fuzzTarget) reset(t testing.TB) {
	for i := range f.messages {
		if f.messages[i].posted {
			f.toggle(t, i)
		}
		f.messages[i] = fuzzMessages[i]
		f.messages[i].posted = false
		f.toggle(t, i)
	}
}

// toggle revokes message i if it is posted, and else posts the next one of its slot.
func (f *fuzzTarget) toggle(t testing.TB, i int) {
	m := &f.messages[i]
	if m.posted {
		f.table.StartRevoke(m.seq)
		if !f.table.Revoked(m.seq) {
			t.Fatal("no worker is inside, and the fence is up")
		}
		m.seq += testSlots
	} else if _, _, err := f.table.Expose(m.seq, f.mr, backend.Range{Offset: units.Bytes(m.off), Length: units.Bytes(m.length)}); err != nil {
		t.Fatal(err)
	}
	m.posted = !m.posted
}

// template is a valid write that the input is combined with, so that mutations get past the ICRC and
// the keys and meet the checks behind.
func (f *fuzzTarget) template(t testing.TB, mode byte, n int) []byte {
	m := f.messages[int(mode>>2&7)%len(f.messages)]
	p := f.validWrite(f.rkey, m.seq*uint64(testMax), n)
	if mode&2 != 0 {
		p = roce.Packet{
			Opcode: roce.UDSendOnly, DestQP: roce.QPN(f.ud.Info().QPN), PKey: roce.DefaultPKey,
			QKey: roce.QKey(backend.DatagramQKey), SrcQP: 5,
		}
	}
	return encode(t, p, n)
}

// packet makes a packet of fuzz input: raw bytes, or a template to which the input is added from a
// position on. The ICRC is made right unless the mode says not to.
func (f *fuzzTarget) packet(t testing.TB, in []byte) []byte {
	if len(in) < 4 {
		return in
	}
	mode, at, n := in[0], int(in[1]), int(in[2])*5%(fuzzMTU+8)
	in = in[4:]
	var b []byte
	if mode&1 != 0 {
		b = f.template(t, mode, n)
		for i := 0; i < len(in) && at+i < len(b); i++ {
			b[at+i] ^= in[i]
		}
	} else {
		b = bytes.Clone(in)
	}
	if mode&0x80 == 0 && len(b) >= roce.MinPacket {
		f.r.flows.current.Seed(len(b)).Seal(b)
	}
	return b
}

// expect says what a packet must do, from the specification, with nothing of this package: where it
// writes (length 0: nowhere), and whether it completes.
func (f *fuzzTarget) expect(b []byte) (off, n uint64, completes bool) {
	var p roce.Packet
	if p.Parse(b) != nil || !f.r.flows.current.Seed(len(b)).Verify(b) || !p.PKey.Matches(roce.DefaultPKey) {
		return 0, 0, false
	}
	if p.Opcode == roce.UDSendOnly {
		ok := uint32(p.DestQP) == f.ud.Info().QPN && uint32(p.QKey) == backend.DatagramQKey && len(p.Payload) <= 4096
		return 0, 0, ok
	}
	if p.Opcode != roce.UCWriteOnlyImm || uint32(p.DestQP) != f.qp.Info().QPN || p.RKey != f.rkey || len(p.Payload) > fuzzMTU {
		return 0, 0, false
	}
	for _, m := range f.messages {
		if !m.posted {
			continue
		}
		base, n := m.seq*uint64(testMax), uint64(len(p.Payload))
		switch at := p.VA - base; {
		case at >= uint64(testMax):
		case n == 0:
			return 0, 0, true // anywhere in the message
		case at+n <= m.length:
			return m.off + at, n, true
		}
	}
	return 0, 0, false
}

// feed gives b to the responder and checks completion, counters, memory and canaries.
func (f *fuzzTarget) feed(t *testing.T, b []byte) {
	before := f.d.Stats()
	off, n, completes := f.expect(b)
	copy(f.r.batch.buf, b)
	var c backend.Completion
	got := f.r.responder.handle(0, len(b), &c)
	f.r.responder.publish()
	if got != completes {
		t.Fatalf("completes %v, want %v: %x", got, completes, b)
	}
	after := f.d.Stats()
	dropped := uint64(0)
	for i := range after.Drops {
		dropped += after.Drops[i] - before.Drops[i]
	}
	if after.PacketsReceived-before.PacketsReceived != 1 || dropped != map[bool]uint64{false: 1}[got] {
		t.Fatalf("counted %d drops: %x", dropped, b)
	}
	if got && c.Kind == backend.KindWrite {
		payload := b[roce.UCWriteImmHeaders:][:n]
		if uint64(c.Len) != n || c.Imm != binary.BigEndian.Uint32(b[28:]) || !bytes.Equal(f.mem[off:off+n], payload) {
			t.Fatalf("completion %+v: %x", c, b)
		}
		copy(f.mem[off:off+n], f.canary[off:])
	}
	if got && c.Kind == backend.KindDatagram && !bytes.Equal(f.cq.Datagram(&c), b[roce.UDSendHeaders:][:c.Len]) {
		t.Fatalf("datagram %+v: %x", c, b)
	}
	if !bytes.Equal(f.mem, f.canary) {
		t.Fatalf("memory changed outside: %x", b)
	}
}

// FuzzReceive feeds a connected device with packets, valid but for a few fields, or of anything at all.
// The input is a sequence of them, each with its length in front; between them messages come and go.
func FuzzReceive(f *testing.F) {
	target := newFuzzTarget(f)
	seed := func(packets ...[]byte) {
		var in []byte
		for _, p := range packets {
			in = append(binary.BigEndian.AppendUint16(in, uint16(len(p))), p...)
		}
		f.Add(in)
	}
	seed([]byte{1, 0, 20, 0}, []byte{1, 0, 0, 0}, []byte{1 | 4, 0, 20, 0}, []byte{1 | 8, 0, 0, 0})
	seed([]byte{0}, []byte{1, 0, 20, 0}, []byte{0}, []byte{1, 0, 20, 0}, []byte{1}, []byte{1 | 4, 16, 20, 0, 1})
	seed([]byte{1 | 2, 0, 20, 0}, []byte{1 | 2, 12, 20, 0, 1}, []byte{1 | 2, 0, 255, 0})
	seed([]byte{1, 12, 20, 0, 0, 0, 0, 1}, []byte{1, 18, 20, 0, 1}, []byte{1, 20, 20, 0, 1}, []byte{0x81, 0, 20, 0})
	seed([]byte{0, 0, 0, 0, 0x2b, 0, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, nil, make([]byte, 100))
	seed([]byte{1, 0, 40, 0, 0x01}, []byte{1, 1, 40, 0, 0x31}, []byte{1, 2, 40, 0, 0x7f}, []byte{1, 24, 40, 0, 1}, []byte{1, 5, 40, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		target.reset(t)
		for len(in) >= 2 {
			n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			if op := in[2 : 2+n]; len(op) == 1 {
				target.toggle(t, int(op[0])%len(target.messages))
			} else {
				target.feed(t, target.packet(t, op))
			}
			in = in[2+n:]
		}
	})
}

// TestFuzzTemplates: the fuzz target's packets reach the user's memory when nothing is mutated, or it
// would prove nothing.
func TestFuzzTemplates(t *testing.T) {
	f := newFuzzTarget(t)
	f.reset(t)
	for _, in := range [][]byte{{1, 0, 20, 0}, {1, 0, 0, 0}, {1 | 4, 0, 204, 0}, {1 | 8, 0, 0, 0}, {1 | 2, 0, 20, 0}} {
		packet := f.packet(t, in)
		_, n, ok := f.expect(packet)
		require.True(t, ok)
		require.Equal(t, in[2] != 0 && in[0]&2 == 0, n != 0)
		f.feed(t, packet)
	}
	for _, in := range [][]byte{{0x81, 0, 20, 0, 1}, {1, 12, 20, 0, 1}, {1 | 8, 0, 1, 0}} {
		_, _, ok := f.expect(f.packet(t, in))
		require.False(t, ok)
		f.feed(t, f.packet(t, in))
	}
}

// FuzzSource feeds socket addresses, as a check that reading one never fails.
func FuzzSource(f *testing.F) {
	f.Add(make([]byte, 28), true)
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) {
		var n sockName
		copy(n[:], b)
		e := n.endpoint(v6)
		a := e.addrPort(v6)
		if keyOf(a.Addr()) != e.ip || a.Port() != e.port || a.Addr().Is4() == v6 {
			t.Fatal(a)
		}
		if _, err := roce.NewFlow(a, netip.AddrPortFrom(a.Addr(), 1)); err != nil {
			t.Fatal(err)
		}
	})
}
