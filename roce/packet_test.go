// SPDX-License-Identifier: Apache-2.0

package roce

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// knownOpcodes returns every opcode that has a layout.
func knownOpcodes() (ops []Opcode) {
	for i := range 256 {
		if Opcode(i).Known() {
			ops = append(ops, Opcode(i))
		}
	}
	return ops
}

// sample returns a packet of op with every field that op has set to something of its own.
func sample(op Opcode) Packet {
	p := Packet{
		Opcode: op, Solicited: true, MigReq: true, PKey: 0x8123, FECN: true, BECN: true, AckReq: true,
		DestQP: 0x123456, PSN: 0xfedcba, ICRC: 0x01020304,
	}
	s := layouts[op].headers
	n := 0
	switch layouts[op].payload {
	case payloadFull:
		n = 512
	case payloadSome, payloadAny:
		n = 301
	case payloadEight:
		n = 8
	case payloadCNP:
		n = CNPSize
	}
	p.Payload = make([]byte, n)
	for i := range p.Payload {
		p.Payload[i] = byte(i + 1)
	}
	if s&hasDETH != 0 {
		p.QKey, p.SrcQP = 0x80010000, 0xabcdef
	}
	if s&hasFETH != 0 {
		p.Flush = 0x11
	}
	if s&(hasRETH|hasAtomicETH) != 0 {
		p.VA, p.RKey = 0x1122334455667788, 0x99aabbcc
	}
	if s&hasRETH != 0 {
		p.DMALength = 1 << 20
		if layouts[op].dma == dmaExact {
			p.DMALength = uint32(n)
		}
	}
	if s&hasAtomicETH != 0 {
		p.SwapAdd, p.Compare = 0x0102030405060708, 0x1112131415161718
	}
	if s&hasAETH != 0 {
		p.Syndrome, p.MSN = NAKRemoteAccess, 0x654321
	}
	if s&hasAtomicAckETH != 0 {
		p.AtomicAck = 0x2122232425262728
	}
	if s&hasImmDt != 0 {
		p.Imm = 0xdeadbeef
	}
	if s&hasIETH != 0 {
		p.Invalidate = 0x31323334
	}
	return p
}

func encode(t testing.TB, p *Packet) []byte {
	b := make([]byte, p.Size())
	n, err := p.Encode(b)
	require.NoError(t, err, p.Opcode)
	require.Len(t, b, n)
	return b
}

func TestRoundTrip(t *testing.T) {
	for _, op := range knownOpcodes() {
		want := sample(op)
		b := encode(t, &want)
		require.Zero(t, len(b)%4)
		got := Packet{VA: 1, Imm: 2, Syndrome: 3, Payload: make([]byte, 9)} // must not shine through
		require.NoError(t, got.Parse(b), op)
		require.Equal(t, want, got, op)
	}
}

// The layout of the two packets that sdr sends, byte by byte.
func TestUCWriteImmBytes(t *testing.T) {
	b := make([]byte, UCWriteImmHeaders+1)
	b[UCWriteImmHeaders] = 0xee
	w := UCWriteImm{
		VA: 0x1122334455667788, RKey: 0x99aabbcc, Imm: 0xdeadbeef, Length: 4094,
		DestQP: 0xff123456, PSN: 0xff654321, PKey: DefaultPKey, MigReq: true,
	}
	w.Encode(b)
	require.Equal(t, []byte{
		0x2b, 0x60, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x00, 0x65, 0x43, 0x21,
		0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0x00, 0x00, 0x0f, 0xfe,
		0xde, 0xad, 0xbe, 0xef, 0xee,
	}, b)

	p := Packet{
		Opcode: UCWriteOnlyImm, VA: w.VA, RKey: w.RKey, Imm: w.Imm, DMALength: w.Length, DestQP: 0x123456,
		PSN: 0x654321, PKey: DefaultPKey, MigReq: true, Payload: make([]byte, w.Length),
	}
	require.Equal(t, encode(t, &p)[:UCWriteImmHeaders], b[:UCWriteImmHeaders])
	require.Panics(t, func() { w.Encode(make([]byte, 0, UCWriteImmHeaders-1)) })
}

func TestUDSendBytes(t *testing.T) {
	b := make([]byte, UDSendHeaders)
	s := UDSend{Length: 3, DestQP: 0x123456, SrcQP: 0xff654321, QKey: 0x11111111, PSN: 7, PKey: 0x7fff, Solicited: true}
	s.Encode(b)
	require.Equal(t, []byte{
		0x64, 0x90, 0x7f, 0xff, 0x00, 0x12, 0x34, 0x56, 0x00, 0x00, 0x00, 0x07,
		0x11, 0x11, 0x11, 0x11, 0x00, 0x65, 0x43, 0x21,
	}, b)
	require.Panics(t, func() { s.Encode(make([]byte, 0, UDSendHeaders-1)) })
}

// A sender that gathers (headers, payload elsewhere, trailer) makes the packet that Encode makes.
func TestGatheredPacket(t *testing.T) {
	flow := testFlow4()
	for n := range 9 {
		payload := []byte("12345678")[:n]
		w := UCWriteImm{VA: 1, RKey: 2, Imm: 3, Length: uint32(n), DestQP: 4, PSN: 5, PKey: DefaultPKey}
		size := PacketSize(UCWriteImmHeaders, n)
		b := make([]byte, UCWriteImmHeaders, size)
		w.Encode(b)
		var trailer [TrailerMax]byte
		k := PutTrailer(trailer[:], n, flow.Seed(size).Sum2(b, payload))
		b = append(append(b, payload...), trailer[:k]...)
		require.Len(t, b, size)
		require.True(t, flow.Seed(size).Verify(b), n)

		var p Packet
		require.NoError(t, p.Parse(b))
		require.Equal(t, payload, p.Payload)
		require.Equal(t, b, encode(t, &p))
	}
}

func TestParseRefuses(t *testing.T) {
	valid := func(op Opcode) []byte { p := sample(op); return encode(t, &p) }
	set := func(b []byte, i int, v byte) []byte { b[i] = v; return b }
	pad := func(b []byte, n byte) []byte { return set(b, 1, b[1]&^0x30|n<<4) }
	sized := func(op Opcode, n int) []byte {
		return set(make([]byte, PacketSize(int(layouts[op].size), n)), 0, byte(op))
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"empty", nil, ErrShort},
		{"no ICRC", valid(UCSendOnly)[:15], ErrShort},
		{"version", set(valid(UCSendOnly), 1, 1), ErrVersion},
		{"version before opcode", set(set(valid(UCSendOnly), 1, 0x0f), 0, 0xff), ErrVersion},
		{"reserved opcode", set(valid(UCSendOnly), 0, 0x2c), ErrOpcode},
		{"RD", set(valid(UCSendOnly), 0, 0x44), ErrOpcode},
		{"no RETH", set(make([]byte, 16), 0, byte(UCWriteOnly)), ErrShort},
		{"half a RETH", set(make([]byte, 28), 0, byte(UCWriteOnly)), ErrShort},
		{"no DETH", set(make([]byte, 20), 0, byte(UDSendOnly)), ErrShort},
		{"17 bytes", set(make([]byte, 17), 0, byte(UCSendOnly)), ErrLength},
		{"pad without payload", pad(sized(UCSendOnly, 0), 1), ErrPad},
		{"pad in First", pad(sized(UCSendFirst, 256), 3), ErrPad},
		{"pad in CNP", pad(valid(CNPOpcode), 3), ErrPad},
		{"pad in Acknowledge", pad(sized(RCAcknowledge, 4), 3), ErrPad},
		{"First not an MTU", sized(UCSendFirst, 252), ErrLength},
		{"First of 768 bytes", sized(UCSendFirst, 768), ErrLength},
		{"Middle empty", sized(UCWriteMiddle, 0), ErrLength},
		{"Middle of 8192 bytes", sized(UCWriteMiddle, 8192), ErrLength},
		{"Last empty", sized(UCSendLast, 0), ErrLength},
		{"Last too long", sized(UCSendLast, 4100), ErrLength},
		{"Only too long", sized(UDSendOnly, 4100), ErrLength},
		{"READ Request with payload", sized(RCReadRequest, 4), ErrLength},
		{"ATOMIC WRITE of 4 bytes", sized(RCAtomicWrite, 4), ErrLength},
		{"CNP short", sized(CNPOpcode, 12), ErrLength},
		{"CNP long", sized(CNPOpcode, 20), ErrLength},
		{"WRITE Only says more", dmaLength(valid(UCWriteOnly), 302), ErrDMALength},
		{"WRITE Only says less", dmaLength(valid(UCWriteOnlyImm), 300), ErrDMALength},
		{"WRITE First says all", dmaLength(valid(UCWriteFirst), 512), ErrDMALength},
	} {
		var p Packet
		require.Equal(t, c.want, p.Parse(c.b), c.name)
	}
}

func TestParseAccepts(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 255, 4095, 4096} {
		p := Packet{Opcode: UCWriteOnlyImm, DMALength: uint32(n), Payload: make([]byte, n)}
		b := encode(t, &p)
		require.LessOrEqual(t, len(b), MaxPacket)
		require.NoError(t, p.Parse(b), n)
		require.Len(t, p.Payload, n)
		require.Equal(t, n, cap(p.Payload), "an append must not reach the pad and the ICRC")
	}
	for op, sizes := range map[Opcode][]int{UCSendFirst: {256, 4096}, UCSendLast: {1, 4096}, UCWriteMiddle: {256, 4096}} {
		for _, n := range sizes {
			p := Packet{Opcode: op, Payload: make([]byte, n)}
			require.NoError(t, p.Parse(encode(t, &p)), "%v of %d bytes", op, n)
		}
	}
	// Reserved bits and pad bytes are ignored on receipt.
	p := sample(UDSendOnlyImm)
	b := encode(t, &p)
	b[4] |= 0x3f
	b[8] |= 0x7f
	b[16] = 0xff
	b[len(b)-5] = 0xff
	var got Packet
	require.NoError(t, got.Parse(b))
	require.Equal(t, p, got)
}

func TestEncodeRefuses(t *testing.T) {
	b := make([]byte, MaxPacket)
	for _, c := range []struct {
		p    Packet
		n    int
		want error
	}{
		{Packet{Opcode: 0x2c}, 0, ErrOpcode},
		{Packet{Opcode: 0x2c}, 64, ErrOpcode},
		{Packet{Opcode: UCSendOnly}, 15, ErrShort},
		{Packet{Opcode: UCSendOnly, Payload: make([]byte, 1)}, 19, ErrShort},
		{Packet{Opcode: UCSendOnly, DestQP: 1 << 24}, 64, ErrField},
		{Packet{Opcode: UCSendOnly, PSN: 1 << 24}, 64, ErrField},
		{Packet{Opcode: UDSendOnly, SrcQP: 1 << 24}, 64, ErrField},
		{Packet{Opcode: RCAcknowledge, MSN: 1 << 24}, 64, ErrField},
		{Packet{Opcode: UCSendFirst, Payload: make([]byte, 255)}, MaxPacket, ErrLength},
		{Packet{Opcode: UCWriteOnly, Payload: make([]byte, 8)}, 64, ErrDMALength},
	} {
		n, err := c.p.Encode(b[:c.n])
		require.Equal(t, c.want, err, fmt.Sprintf("%+v", c.p))
		require.Zero(t, n)
	}
	require.Equal(t, make([]byte, MaxPacket), b, "nothing is written")
	_, err := (&Packet{Opcode: UCWriteOnly}).EncodeHeaders(b[:27])
	require.Equal(t, ErrShort, err)
	_, err = (&Packet{Opcode: UCWriteOnly}).EncodeHeaders(make([]byte, 28))
	require.NoError(t, err)
	// Fields of headers that the opcode doesn't have are ignored.
	_, err = (&Packet{Opcode: UCSendOnly, SrcQP: 1 << 24, MSN: 1 << 24, DMALength: 9}).Encode(b)
	require.NoError(t, err)
}
