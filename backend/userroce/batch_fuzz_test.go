// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// A batchTarget is a fuzzTarget whose receiver gets whole batches, as recvmmsg fills them: datagrams and trains, of several sources, with
// and without their TOS.
type batchTarget struct {
	*fuzzTarget
	sources []netip.AddrPort // the last is not the peer's

	// What must come of the batch.
	packets, dropped uint64
	completions      []backend.Completion
	memory           []byte
}

const fuzzUDCookie = 9 // of side.newUD

func newBatchTarget(t testing.TB) *batchTarget {
	f := &batchTarget{fuzzTarget: newFuzzTarget(t)}
	peer := f.qp.(*queuePair).peer.Load().addr
	f.sources = []netip.AddrPort{
		netip.AddrPortFrom(peer, 0xc000), netip.AddrPortFrom(peer, 0xc001),
		netip.AddrPortFrom(peer, 0xc100), // in the same place of the cache of flows as the first
		netip.MustParseAddrPort("192.0.2.1:49152"),
	}
	return f
}

// begin empties the batch.
func (f *batchTarget) begin(t testing.TB) {
	f.reset(t)
	f.r.batch.count, f.r.batch.current, f.r.batch.offset = 0, 0, 0
	f.packets, f.dropped, f.completions = 0, 0, f.completions[:0]
	f.memory = append(f.memory[:0], f.canary...)
}

// Bits of the first byte of a message; the four lowest are how many packets it has besides the first.
const (
	oddSegment = 1 << (4 + iota) // the fourth byte times four is the size of a train's packets, instead of the first one's
	withTOS
	noTrain
	truncated
)

// message adds a message of packets that are made of the input to the batch, and says what must come of it.
func (f *batchTarget) message(t testing.TB, in []byte) (rest []byte) {
	b := &f.r.batch
	i := b.count
	b.count++
	how, source, tos, segment := in[0], f.sources[int(in[1])%len(f.sources)], in[2], int(in[3])*4
	in = in[4:]
	b.names[i].put(source.Addr(), source.Port(), 0)
	f.r.flows.use(&b.names[i], f.d)
	data := b.buf[i*recvSpace : i*recvSpace : (i+1)*recvSpace]
	for n := 0; n <= int(how&15) && len(in) > 1; n++ {
		size := min(int(in[0]&31), len(in)-1)
		one := f.packet(t, in[1:1+size])
		in = in[1+size:]
		if n == 0 && how&oddSegment == 0 {
			segment = len(one)
		}
		data = append(data, one...)
	}
	m := &b.msgs[i]
	m.len, m.hdr.flags, m.hdr.controllen = uint32(len(data)), 0, 0
	control := func(level, typ, value int32) {
		b.ctls[i][m.hdr.controllen/uint64(unsafe.Sizeof(cmsgSpace{}))] = cmsgSpace{len: cmsgLen32, level: level, typ: typ, value: value}
		m.hdr.controllen += uint64(unsafe.Sizeof(cmsgSpace{}))
	}
	if how&withTOS == 0 {
		tos = 0
	} else {
		control(unix.SOL_IP, unix.IP_TOS, int32(tos))
	}
	if how&noTrain != 0 || segment == 0 {
		segment = len(data)
	} else {
		control(unix.SOL_UDP, unix.UDP_GRO, int32(segment))
	}
	if how&truncated != 0 {
		m.hdr.flags = unix.MSG_TRUNC
		f.dropped++
		return in
	}
	for first := true; first || len(data) > 0; first = false {
		one := data[:min(segment, len(data))]
		data = data[len(one):]
		f.foresee(one, source == f.sources[len(f.sources)-1], tos)
	}
	return in
}

// foresee says what must come of a packet.
func (f *batchTarget) foresee(b []byte, strange bool, tos uint8) {
	f.packets++
	off, n, ok := f.expect(b)
	if !ok || strange && roce.BTH(b).Opcode() == roce.UCWriteOnlyImm {
		f.dropped++
		return
	}
	var p roce.Packet
	_ = p.Parse(b) // expect has
	c := backend.Completion{Imm: p.Imm, Len: uint32(len(p.Payload)), Kind: backend.KindWrite, Cookie: testCookie}
	switch {
	case p.Opcode == roce.UDSendOnly:
		c.Kind, c.Cookie = backend.KindDatagram, fuzzUDCookie
	case tos&ecnMask == ecnCE:
		c.Flags = backend.FlagECN
	}
	copy(f.memory[off:off+n], p.Payload)
	f.completions = append(f.completions, c)
}

// deliver has the receiver handle the batch, with room for so many completions at a time, and checks what comes of it.
func (f *batchTarget) deliver(t *testing.T, room int) {
	before := f.d.Stats()
	f.r.now = f.r.now.Add(units.Millisecond)
	f.r.openMessage()
	var got []backend.Completion
	dst := make([]backend.Completion, room)
	for f.r.pending() {
		got = append(got, dst[:f.r.deliver(dst)]...)
	}
	for i := range got {
		got[i].WRID = 0 // where a datagram is
	}
	after, dropped := f.d.Stats(), uint64(0)
	for i := range after.Drops {
		dropped += after.Drops[i] - before.Drops[i]
	}
	require.Equal(t, len(f.completions), len(got))
	for i := range got {
		require.Equal(t, f.completions[i], got[i])
	}
	require.Equal(t, f.packets, after.PacketsReceived-before.PacketsReceived)
	require.Equal(t, f.dropped, dropped)
	require.True(t, bytes.Equal(f.memory, f.mem), "the memory differs")
	copy(f.mem, f.canary)
}

// FuzzBatch is FuzzReceive for whole batches: trains of packets that are none, or of others than their first, and receivers that have no
// room for all completions.
func FuzzBatch(f *testing.F) {
	target := newBatchTarget(f)
	f.Add([]byte{2, 0, 0, 0, 4, 1, 0, 20, 0, 4, 1, 0, 20, 0, 4, 1, 0, 19, 0}, uint8(3))
	f.Add([]byte{2 | withTOS, 1, 3, 0, 4, 1, 0, 20, 0, 4, 3, 0, 18, 0, 4, 1, 0, 19, 0, 1 | withTOS, 2, 3, 0, 4, 1, 0, 20, 0, 4, 1, 0, 0, 0}, uint8(1))
	f.Add([]byte{1 | noTrain, 3, 0, 0, 4, 1, 0, 20, 0, 4, 3, 0, 20, 0, 1 | oddSegment, 0, 1, 34, 4, 1, 0, 20, 0, 4, 1, 0, 20, 0}, uint8(2))
	f.Add([]byte{1, 3, 0, 0, 4, 1, 0, 20, 0, 4, 3, 0, 20, 0, 1 | truncated, 0, 1, 0, 4, 1, 0, 20, 0, 4, 1, 0, 20, 0, 0, 0, 0, 0, 4, 1, 0, 20, 0}, uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, room uint8) {
		target.begin(t)
		for len(in) >= 4 && target.r.batch.count < recvMessages {
			in = target.message(t, in)
		}
		target.deliver(t, 1+int(room%8))
	})
}
