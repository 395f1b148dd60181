// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/units"
)

// frame is an Ethernet frame with a RoCEv2 packet of so many bytes behind the BTH, all of them distinct.
func frame(v6 bool, tag Tag, o roce.Opcode, rest int) []byte {
	ip := ipv4Size
	if v6 {
		ip = ipv6Size
	}
	b := make([]byte, ethSize+ip+udpSize+roce.BTHSize+rest)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	udp := b[ethSize+ip:]
	if v6 {
		binary.BigEndian.PutUint16(b[12:], typeIPv6)
		b[14], b[15] = 0x60, 0
		tc := tag.TOS(0x41) // a DSCP of 16 and ECT(1)
		b[14], b[15] = 0x60|tc>>4, tc<<4|5
		binary.BigEndian.PutUint16(b[18:], uint16(len(udp)))
		b[20] = protoUDP
	} else {
		binary.BigEndian.PutUint16(b[12:], typeIPv4)
		b[14], b[15] = 0x45, tag.TOS(0x41)
		binary.BigEndian.PutUint16(b[16:], uint16(len(b)-ethSize))
		b[20], b[21], b[23] = 0x40, 0, protoUDP
		b[24], b[25] = 0, 0
		binary.BigEndian.PutUint16(b[24:], checksum(b[ethSize:ethSize+ipv4Size], 0))
	}
	binary.BigEndian.PutUint16(udp[2:], rocePort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	udp[udpSize] = byte(o)
	return b
}

func TestAdmit(t *testing.T) {
	for _, tc := range []struct {
		tag    Tag
		canCut bool
		queued units.Bytes
		want   switchfn.Verdict
	}{
		{Data, true, 999, switchfn.Pass}, {Data, true, 1000, switchfn.Trim}, {Data, false, 1000, switchfn.Drop},
		{Ack, true, 999, switchfn.Pass}, {Ack, true, 1000, switchfn.Drop},
		{Other, false, 0, switchfn.Pass}, {Other, false, 1000, switchfn.Drop},
		{HeaderOnly, false, 0, switchfn.Control}, {HeaderOnly, false, 1e9, switchfn.Control},
	} {
		require.Equal(t, tc.want, Admit(tc.tag, tc.canCut, tc.queued, 1000), "%+v", tc)
	}
}

// A header-only packet has the length of its opcode, good checksums, the tag, and every other byte as before.
func TestCut(t *testing.T) {
	for _, tc := range []struct {
		o    roce.Opcode
		keep int
		v6   bool
		want int
	}{
		{OpWrite, 0, false, 60}, {OpSendImm, 0, false, 60}, {OpWrite, 0, true, 80}, {roce.UCWriteOnly, 0, false, 70},
		{roce.UCWriteOnlyImm, 0, false, 74}, {roce.UCWriteOnlyImm, 0, true, 94}, {roce.RCWriteOnly, 256, false, 256}, {OpWrite, 57, false, 57},
		{roce.RCWriteOnly, 0, false, 0}, {OpWrite, 53, false, 0}, {OpWrite, 73, true, 0}, {OpWrite, 1042 + 54, false, 0},
	} {
		b := frame(tc.v6, Data, tc.o, 1042)
		l, ok := Parse(b)
		require.True(t, ok)
		require.Equal(t, tc.v6, l.V6)
		n := l.Length(tc.keep)
		require.Equal(t, tc.want, n, "%+v", tc)
		if n == 0 {
			continue
		}
		before := bytes.Clone(b)
		cut, v := Frame(b, tc.keep, 5, 5)
		require.Equal(t, switchfn.Trim, v)
		require.Len(t, cut, n)
		m, ok := Parse(cut)
		require.True(t, ok, "what is left is a packet")
		require.Equal(t, HeaderOnly, m.Tag)
		require.Equal(t, n, m.End)
		changed := map[int]bool{15: true, l.UDP + 4: true, l.UDP + 5: true, l.UDP + 6: true, l.UDP + 7: true}
		if tc.v6 {
			changed[18], changed[19] = true, true
			require.Zero(t, checksum(cut[ethSize+8:], uint32(n-l.UDP)+protoUDP), "UDP checksum")
			require.EqualValues(t, 0x15, cut[15]&0x3f, "ECN and flow label stay")
		} else {
			changed[16], changed[17], changed[24], changed[25] = true, true, true, true
			require.Zero(t, checksum(cut[ethSize:ethSize+ipv4Size], 0), "IP checksum")
			require.EqualValues(t, 0x4d, cut[15], "ECN and DSCP stay beside the tag")
			require.Zero(t, binary.BigEndian.Uint16(cut[l.UDP+6:]), "no UDP checksum")
		}
		for i := range cut {
			require.True(t, changed[i] || cut[i] == before[i], "byte %d", i)
		}
	}
}

// What is no plain RoCEv2 packet is left alone.
func TestUntouched(t *testing.T) {
	for name, spoil := range map[string]func(b []byte) []byte{
		"VLAN":             func(b []byte) []byte { binary.BigEndian.PutUint16(b[12:], 0x8100); return b },
		"options":          func(b []byte) []byte { b[14] = 0x46; return b },
		"first fragment":   func(b []byte) []byte { b[20] = 0x20; return b },
		"later fragment":   func(b []byte) []byte { b[21] = 9; return b },
		"TCP":              func(b []byte) []byte { b[23] = 6; return b },
		"other port":       func(b []byte) []byte { b[37]++; return b },
		"IP length beyond": func(b []byte) []byte { binary.BigEndian.PutUint16(b[16:], 5000); return b },
		"half a BTH": func(b []byte) []byte {
			binary.BigEndian.PutUint16(b[16:], ipv4Size+udpSize+6)
			binary.BigEndian.PutUint16(b[38:], udpSize+6)
			return b
		},
		"UDP length": func(b []byte) []byte { b[39]++; return b },
		"cut off":    func(b []byte) []byte { return b[:60] },
		"empty":      func(b []byte) []byte { return b[:0] },
	} {
		for _, tag := range []Tag{Data, HeaderOnly} {
			b := spoil(frame(false, tag, OpWrite, 500))
			before := bytes.Clone(b)
			_, ok := Parse(b)
			require.False(t, ok, name)
			out, v := Frame(b, 60, 0, 1)
			require.Equal(t, switchfn.Pass, v, name)
			require.Equal(t, before, out, name)
			_, v = Frame(b, 60, 1, 1)
			require.Equal(t, switchfn.Drop, v, name)
		}
	}
	// Extension headers of IPv6: hop-by-hop options, routing, a fragment's, ESP, authentication, destination options.
	for _, next := range []byte{0, 43, 44, 50, 51, 60, protoUDP} {
		b := frame(true, Data, OpWrite, 500)
		if b[20] = next; next == protoUDP {
			b[14] = 0x40 | b[14]&15 // another version
		}
		before := bytes.Clone(b)
		out, v := Frame(b, 0, 0, 1)
		require.Equal(t, switchfn.Pass, v, next)
		require.Equal(t, before, out, next)
		_, v = Frame(b, 0, 1, 1)
		require.Equal(t, switchfn.Drop, v, next)
	}
}

// A frame that ends anywhere before its IP packet does is none, and the shortest ends behind the BTH.
func TestParseCut(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		b := frame(v6, Data, OpWrite, 0)
		l, ok := Parse(b)
		require.True(t, ok)
		require.Equal(t, len(b), l.End)
		for n := range b {
			_, ok := Parse(b[:n:n])
			require.False(t, ok, "%d bytes, IPv6 %v", n, v6)
		}
	}
}

// Padding of the link layer is not counted as payload: a short packet isn't cut to its own size.
func TestPadding(t *testing.T) {
	b := append(frame(false, Data, OpWrite, ETHSize), make([]byte, 40)...)
	_, v := Frame(b, 0, 1, 1)
	require.Equal(t, switchfn.Drop, v)
}

// The addresses that the checksum of IPv6 covers are those of the packet: against the ones that net/netip prints.
func TestIPv6Checksum(t *testing.T) {
	b := frame(true, Data, roce.UCWriteOnlyImm, 300)
	src, dst := netip.MustParseAddr("fd00::1").As16(), netip.MustParseAddr("fd00::2").As16()
	copy(b[22:], src[:])
	copy(b[38:], dst[:])
	out, _ := Frame(b, 0, 1, 1)
	var pseudo []byte
	pseudo = append(append(pseudo, src[:]...), dst[:]...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(out)-54))
	pseudo = append(pseudo, 0, 0, 0, protoUDP)
	require.Zero(t, checksum(append(pseudo, out[54:]...), 0))

	// A checksum of 0 is written as 0xffff: the source port takes what is missing.
	sum := uint32(binary.BigEndian.Uint16(out[54:])) + uint32(binary.BigEndian.Uint16(out[60:]))
	b = frame(true, Data, roce.UCWriteOnlyImm, 300)
	copy(b[22:], src[:])
	copy(b[38:], dst[:])
	binary.BigEndian.PutUint16(b[54:], uint16(sum&0xffff+sum>>16))
	out, _ = Frame(b, 0, 1, 1)
	require.EqualValues(t, 0xffff, binary.BigEndian.Uint16(out[60:]))
}

// The checksum is what RFC 1071 says, of any length and with as many carries as there can be: the complement of the sum modulo 65535.
func TestChecksum(t *testing.T) {
	const seed = 4
	rnd := rand.New(rand.NewPCG(seed, seed))
	for n := range 600 {
		for _, ones := range []bool{false, true} {
			b, sum := make([]byte, n), uint64(rnd.Uint32N(1<<16))
			begun := uint32(sum)
			for i := range b {
				if b[i] = byte(rnd.Uint32()); ones {
					b[i] = 0xff
				}
				sum += uint64(b[i]) << (8 * (1 - i%2))
			}
			want := uint16(sum % 0xffff)
			if want == 0 && sum > 0 {
				want = 0xffff
			}
			require.Equal(t, ^want, checksum(b, begun), "%d bytes, seed %d", n, seed)
		}
	}
	require.EqualValues(t, 1, ^checksum([]byte{0xff, 0xff}, 1<<16), "a carry of the carry")
	require.Equal(t, ^uint16(1), checksum(nil, 0xffff_0001), "carries twice")
}

// Bounds of the paper (section 4.2): with headers of 48 bytes N = 22 is the largest, with w = 25.2.
func TestWeight(t *testing.T) {
	r := NS3.Ratio(1048, 48)
	w, err := Weight(22, r)
	require.NoError(t, err)
	require.InDelta(t, 25.2, w, 0.05)
	w, err = Weight(16, r)
	require.NoError(t, err)
	require.InDelta(t, 2.20, w, 0.005)
	for _, n := range []int{23, 1, 0} {
		_, err = Weight(n, r)
		require.ErrorContains(t, err, "r > N-1")
	}
	// On a real wire, with 1 KiB and all headers of the wire "dcp".
	r = Ethernet.Ratio(60+16+4+1024, HeaderSize)
	require.InDelta(t, 13.4, r, 0.05)
	_, err = Weight(14, r)
	require.NoError(t, err)
	_, err = Weight(15, r)
	require.Error(t, err)
}

// A meter is a queue: against one that holds packets and lets them out one by one.
func TestMeterIsAQueue(t *testing.T) {
	const seed, limit = 1, 40_000 // ns
	r := rand.New(rand.NewPCG(seed, seed))
	m := Meter{PSPerByte: 80, Overhead: 24, Limit: limit} // 100 Gbit/s
	var leaves []uint64                                   // ps, of what is queued
	now, most := uint64(0), uint64(0)
	for i := range 100_000 {
		now += r.Uint64N(80)
		b := frame(false, Tag(r.IntN(4)), OpWrite, ETHSize+r.IntN(1400))
		for len(leaves) > 0 && leaves[0] <= now*1000 {
			leaves = leaves[1:]
		}
		last := now * 1000
		if len(leaves) > 0 {
			last = leaves[len(leaves)-1]
		}
		out, v := m.Frame(now, b, 0)
		backlog := last - now*1000
		most = max(most, backlog)
		if backlog+1000 < limit*1000 {
			require.NotEqual(t, switchfn.Drop, v, "packet %d, seed %d", i, seed)
			require.NotEqual(t, switchfn.Trim, v)
		} else if backlog > (limit+1)*1000 {
			require.NotEqual(t, switchfn.Pass, v, "packet %d, seed %d", i, seed)
		}
		if v != switchfn.Drop {
			leaves = append(leaves, last+uint64(len(out)+24)*80)
		}
	}
	require.InDelta(t, most/1000, m.MostBacklog, 1)
	require.EqualValues(t, 100_000, m.Data+m.Trimmed+m.HeaderOnly+m.Ack+m.Other+m.Dropped)
	for _, n := range []uint64{m.Data, m.Trimmed, m.HeaderOnly, m.Ack, m.Other, m.Dropped} {
		require.Greater(t, n, uint64(1000))
	}
}

// A meter by hand, at 2.5 ns a byte and with 10 bytes of overhead: what is exactly at a bound is beyond it, half a nanosecond counts with the
// next frame, and headers are let pass for nothing once twice the limit waits.
func TestMeterByHand(t *testing.T) {
	m := Meter{PSPerByte: 2500, Overhead: 10, Limit: 275}
	ack, data, header := frame(false, Ack, roce.RCAcknowledge, 1), frame(false, Data, OpWrite, 1000), frame(false, HeaderOnly, OpWrite, ETHSize)
	for i, step := range []struct {
		now      uint64
		frame    []byte
		want     switchfn.Verdict
		idle     uint64
		rest     uint32
		most     uint64
		headerly bool // what is sent has a header's length
	}{
		{now: 100, frame: ack, want: switchfn.Pass, idle: 262, rest: 500}, // 55 bytes
		{now: 100, frame: ack, want: switchfn.Pass, idle: 425, most: 162},
		{now: 149, frame: data, want: switchfn.Trim, idle: 600, most: 276, headerly: true}, // 60 bytes
		{now: 325, frame: ack, want: switchfn.Drop, idle: 600, most: 276},                  // 275 wait
		{now: 326, frame: ack, want: switchfn.Pass, idle: 762, rest: 500, most: 276},       // 274
		{now: 326, frame: header, want: switchfn.Control, idle: 937, rest: 500, most: 436},
		{now: 387, frame: header, want: switchfn.Control, idle: 937, rest: 500, most: 550}, // 550 wait, and no more
		{now: 388, frame: header, want: switchfn.Control, idle: 1112, rest: 500, most: 550},
		{now: 1112, frame: header, want: switchfn.Control, idle: 1287, rest: 500, most: 550}, // the half waits still
		{now: 1288, frame: header, want: switchfn.Control, idle: 1463, rest: 0, most: 550},   // it has left
	} {
		sent, v := m.Frame(step.now, bytes.Clone(step.frame), 0)
		require.Equal(t, step.want, v, "step %d", i)
		require.Equal(t, []uint64{step.idle, uint64(step.rest), step.most}, []uint64{m.Idle, uint64(m.Rest), m.MostBacklog}, "step %d", i)
		if step.headerly {
			l, ok := Parse(sent)
			require.True(t, ok && l.Tag == HeaderOnly)
			require.EqualValues(t, HeaderSize, len(sent))
		}
	}
}

// However many header-only packets come, and for how long: soon after the last one data pass again, as behind a queue that has an end.
func TestMeterForgetsAFlood(t *testing.T) {
	const limit = 40_000
	m := Meter{PSPerByte: 8000, Limit: limit} // 1 Gbit/s
	header, ack := frame(false, HeaderOnly, OpWrite, ETHSize), frame(false, Ack, roce.RCAcknowledge, 8)
	now := uint64(0)
	for now < 100_000_000 {
		now += 60 // ten times the rate
		_, v := m.Frame(now, header, 0)
		require.Equal(t, switchfn.Control, v)
	}
	_, v := m.Frame(now, ack, 0)
	require.Equal(t, switchfn.Drop, v)
	_, v = m.Frame(now+limit+1000, ack, 0)
	require.Equal(t, switchfn.Pass, v)
}

// Trimming each n-th packet of data is exact, whatever else passes.
func TestEvery(t *testing.T) {
	m := Meter{Limit: 1, Every: 100}
	for i := range 10_000 {
		b, v := m.Frame(uint64(i), frame(false, Data, OpWrite, 100), 0)
		if v == switchfn.Trim {
			require.Len(t, b, int(HeaderSize))
		}
		m.Frame(uint64(i), frame(false, Ack, roce.RCAcknowledge, 8), 0)
	}
	require.EqualValues(t, 100, m.Trimmed)
	require.EqualValues(t, 9900, m.Data)
	require.EqualValues(t, 10_000, m.Ack)
	require.EqualValues(t, 104, unsafe.Sizeof(m), "the kernel's struct has this size")
}

func TestNoAllocation(t *testing.T) {
	m := Meter{PSPerByte: 80, Limit: 1}
	b := frame(false, Data, OpWrite, 1000)
	c := bytes.Clone(b)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		copy(b, c)
		m.Frame(0, b, 0)
	}))
}

// Whatever comes in: no panic, nothing gets longer, what was cut can be parsed and is not cut again.
func FuzzFrame(f *testing.F) {
	f.Add(frame(false, Data, OpWrite, 100), 0)
	f.Add(frame(true, Data, roce.UCWriteOnlyImm, 100), 0)
	f.Add(frame(false, HeaderOnly, OpWrite, 6), 256)
	f.Fuzz(func(t *testing.T, b []byte, keep int) {
		n := len(b)
		out, v := Frame(b, keep, 1, 1)
		require.LessOrEqual(t, len(out), n)
		if v != switchfn.Trim {
			return
		}
		require.Less(t, len(out), n)
		l, ok := Parse(out)
		require.True(t, ok)
		require.Equal(t, HeaderOnly, l.Tag)
		_, v = Frame(out, keep, 1, 1)
		require.Equal(t, switchfn.Control, v)
	})
}

func BenchmarkMeter(b *testing.B) {
	m := Meter{PSPerByte: 80, Limit: 1000}
	p := frame(false, Data, OpWrite, 1000)
	c := bytes.Clone(p)
	b.ReportAllocs()
	for i := range b.N {
		copy(p[:80], c)
		m.Frame(uint64(i)*90, p, 0)
	}
}
