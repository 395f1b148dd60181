// SPDX-License-Identifier: Apache-2.0

package softswitch

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

// write is an Ethernet frame with a UC write of n bytes and a number in its immediate.
func write(tag trim.Tag, n int, number uint32) []byte {
	b := make([]byte, 14+20+8+roce.PacketSize(roce.UCWriteImmHeaders, n))
	b[12], b[14], b[15], b[22], b[23] = 8, 0x45, tag.TOS(2), 64, 17
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	copy(b[26:], []byte{192, 0, 2, 1, 192, 0, 2, 2})
	binary.BigEndian.PutUint16(b[24:], ^sum(b[14:34]))
	binary.BigEndian.PutUint16(b[34:], 0xc000)
	binary.BigEndian.PutUint16(b[36:], roce.UDPPort)
	binary.BigEndian.PutUint16(b[38:], uint16(len(b)-34))
	w := roce.UCWriteImm{Length: uint32(n), Imm: number, DestQP: 5, PKey: roce.DefaultPKey}
	w.Encode(b[42:])
	return b
}

// sum is the ones' complement sum of RFC 1071.
func sum(b []byte) uint16 {
	var s uint32
	for ; len(b) > 1; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

func newPort(t testing.TB, c Config) *Port {
	t.Helper()
	p, err := NewPort(c)
	require.NoError(t, err)
	return p
}

func (p *Port) put(now units.Instant, b []byte) {
	f := p.frame()
	f.n = copy(f.data[metaSize:], b)
	p.enqueue(now, f)
}

// drain takes out all that leaves until an instant, stepping as the port says.
func (p *Port) drain(until units.Instant) (sent [][]byte, at []units.Instant) {
	for t := p.next(); t <= until; t = p.next() {
		f := p.dequeue(t)
		sent, at = append(sent, append([]byte(nil), f.bytes()...)), append(at, t)
		p.release(f)
	}
	return sent, at
}

// A queue beyond its threshold trims data to 74 bytes that leave before what waits, drops others, and lets headers pass;
// what leaves takes its time on the line. Each number leaves once.
func TestPortTrims(t *testing.T) {
	p := newPort(t, Config{Rate: 8 * units.Gbit, Queue: 5000, Trim: &fabric.Trim{Weight: 1}}) // 1 ns a byte
	const start = units.Instant(units.Second)
	for i := range uint32(10) {
		p.put(start, write(trim.Data, 1024, i)) // 1102 bytes each
	}
	p.put(start, write(trim.Ack, 1024, 90))
	p.put(start, write(trim.HeaderOnly, 0, 91))
	sent, at := p.drain(start.Add(units.Second))
	require.Len(t, sent, 11)
	cut, seen := 0, map[uint32]bool{}
	for i, b := range sent {
		l, ok := trim.Parse(b)
		require.True(t, ok)
		require.EqualValues(t, 0xffff, sum(b[14:34]), "the IP header's checksum")
		if l.Tag == trim.HeaderOnly && binary.BigEndian.Uint32(b[70:]) != 91 {
			require.Len(t, b, 74)
			w, err := roce.ParseTrimmed(b[42:])
			require.NoError(t, err)
			require.EqualValues(t, 1024, w.Length)
			cut++
		}
		seen[binary.BigEndian.Uint32(b[70:])] = true
		if i > 0 {
			require.Equal(t, units.Duration(len(sent[i-1])), at[i].Sub(at[i-1]))
		}
	}
	require.Equal(t, 5, cut)
	require.Len(t, seen, 11)
	require.Less(t, len(sent[1]), 100, "headers take turns with data")
	require.Equal(t, Counters{
		Frames: 12, Bytes: 11*1102 + 78, Sent: 11, SentBytes: 5*1102 + 5*74 + 78, Trimmed: 5, HeaderOnly: 1, Dropped: 1, Longest: 5 * 1102,
	}, p.Counters)
}

// Without Trim what doesn't fit is dropped, whatever it is.
func TestPortDropsAtTheTail(t *testing.T) {
	p := newPort(t, Config{Rate: 8 * units.Gbit, Queue: 5000})
	for i := range uint32(10) {
		p.put(1, write(trim.Tag(i%4), 1024, i))
	}
	sent, _ := p.drain(units.Instant(units.Second))
	require.Len(t, sent, 5)
	require.EqualValues(t, 5, p.Dropped)
	require.Zero(t, p.Trimmed+p.HeaderOnly)
}

// Without a length of its own the queue is 64 KiB; a threshold of Trim's counts where it is lower, and only there.
func TestPortThreshold(t *testing.T) {
	for _, tc := range []struct {
		queue, threshold, want units.Bytes
	}{{0, 0, 64 * units.KiB}, {5000, 0, 5000}, {5000, 3000, 3000}, {5000, 9000, 5000}, {0, units.MiB, 64 * units.KiB}} {
		p := newPort(t, Config{Rate: units.Gbit, Queue: tc.queue, Trim: &fabric.Trim{Weight: 1, Threshold: tc.threshold}})
		b := write(trim.Data, 1024, 1)
		for p.Trimmed == 0 {
			p.put(1, b)
		}
		require.GreaterOrEqual(t, p.Longest, tc.want)
		require.Less(t, p.Longest, tc.want+units.Bytes(len(b)))
	}
}

// A port leaves as much of what it cuts as Trim's Header says, where that is more than headers of DCP, else a write's headers.
func TestPortLeaves(t *testing.T) {
	for header, want := range map[units.Bytes]int{0: 74, trim.Published: 74, trim.HeaderSize: 74, 61: 61, 256: 256} {
		p := newPort(t, Config{Rate: units.Gbit, Queue: 1, Trim: &fabric.Trim{Weight: 1, Header: header}})
		p.put(1, write(trim.Data, 1024, 1))
		p.put(1, write(trim.Data, 1024, 2))
		sent, _ := p.drain(units.Instant(units.Second))
		require.Len(t, sent, 2)
		require.Equal(t, want, min(len(sent[0]), len(sent[1])), "a header of %d", header)
	}
}

// While both wait, header-only packets and data share the line as the weight says; all of either passes where the other has
// none. The control queue is bounded where that is asked for.
func TestPortSharesByWeight(t *testing.T) {
	for _, weight := range []float64{0.25, 1, 3} {
		p := newPort(t, Config{Rate: 8 * units.Gbit, Queue: 4 * units.MiB, Trim: &fabric.Trim{Weight: weight}})
		for i := range uint32(3000) {
			p.put(1, write(trim.Data, 1024, i))
			for range 14 {
				if p.control.n < maxFrames {
					p.put(1, write(trim.HeaderOnly, 0, i))
				}
			}
		}
		var control, data float64
		for range 4000 {
			f := p.dequeue(p.next())
			if f.n < 100 {
				control += float64(f.n)
			} else {
				data += float64(f.n)
			}
			p.release(f)
		}
		require.InEpsilon(t, weight, control/data, 0.05)
	}
	p := newPort(t, Config{Rate: 8 * units.Gbit, Queue: 2000, Trim: &fabric.Trim{Weight: 1, ControlLimit: 3 * 74}})
	for i := range uint32(10) {
		p.put(1, write(trim.Data, 1024, i))
	}
	require.EqualValues(t, 5, p.HeaderLost)
}

// While a header-only packet waits it carries those of the same queue pair that come, up to as many as Carry says, and none that
// goes elsewhere: each write is named once, and the control queue is as much shorter.
func TestPortCarries(t *testing.T) {
	p := newPort(t, Config{Rate: 8 * units.Gbit, Queue: 1, Trim: &fabric.Trim{Weight: 1, Carry: 64}})
	const start = units.Instant(units.Second)
	for i := range uint32(300) {
		b := write(trim.Data, 1024, i)
		if i%3 == 2 {
			b[42+7]++ // another queue pair
		}
		p.put(start, b)
	}
	require.EqualValues(t, 299, p.Trimmed)
	sent, _ := p.drain(start.Add(units.Second))
	named, packets := map[uint32]bool{}, 0
	for _, b := range sent {
		l, ok := trim.Parse(b)
		require.True(t, ok)
		require.EqualValues(t, 0xffff, sum(b[14:34]), "the IP header's checksum")
		if l.Tag != trim.HeaderOnly {
			continue
		}
		w, err := roce.ParseTrimmed(b[42:])
		require.NoError(t, err)
		packets++
		named[w.Imm] = true
		for i := range int(w.More) {
			x := w.Named(b[42:], i)
			require.Equal(t, w.Imm%3 == 2, x.Imm%3 == 2)
			named[x.Imm] = true
		}
	}
	require.Len(t, named, 299, "all but the first, which was sent whole")
	require.Equal(t, 4+2, packets, "199 by one queue pair, 100 by the other")
	require.EqualValues(t, 299-packets, p.Joined)
	require.EqualValues(t, 300, p.Sent+p.Joined)
	require.EqualValues(t, 1102+packets*74+(299-packets)*8, p.SentBytes)
	require.Zero(t, p.control.bytes)
}

// Whatever comes in, what goes out and is dropped adds up, the rate is kept to, and nothing changes but what trimming and
// marking change.
func TestPortConserves(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		p := newPort(t, Config{
			Rate: units.Gbit, Queue: units.Bytes(1000 + rnd.IntN(50_000)), MarkAbove: 800, Every: rnd.IntN(20),
			Trim: []*fabric.Trim{{Weight: 0.1 + rnd.Float64()*5, Header: 256}, {Weight: 0.1 + rnd.Float64()*5, Carry: rnd.IntN(65)}}[rnd.IntN(2)],
		})
		now, out := units.Instant(1), uint64(0)
		for range 3000 {
			now = now.Add(units.Duration(rnd.IntN(12_000)))
			b := write(trim.Tag(rnd.IntN(4)), rnd.IntN(1500), rnd.Uint32())
			if rnd.IntN(10) == 0 {
				_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b[rnd.IntN(len(b)):])
			}
			p.put(now, b)
			for f := p.dequeue(now); f != nil; f = p.dequeue(now) {
				out++
				p.release(f)
			}
		}
		last := now
		sent, at := p.drain(units.Never - 1)
		out += uint64(len(sent))
		if len(at) > 0 {
			last = at[len(at)-1]
		}
		require.Equal(t, p.Frames, out+p.Dropped+p.Joined, "seed %d", seed)
		require.LessOrEqual(t, p.SentBytes, uint64(units.Gbit.Bytes(units.Duration(last)+slack))+2*MaxFrame, "seed %d", seed)
		require.NotZero(t, p.Marked, "seed %d", seed)
		require.NotZero(t, p.Trimmed, "seed %d", seed)
	}
}

// An ECN-capable packet is marked and stays what it is, with a right checksum; others are left alone.
func TestMark(t *testing.T) {
	b := write(trim.Data, 100, 7)
	want := append([]byte(nil), b...)
	require.True(t, mark(b))
	require.EqualValues(t, 3, b[15]&3)
	require.EqualValues(t, 0xffff, sum(b[14:34]))
	want[15], want[24], want[25] = b[15], b[24], b[25]
	require.Equal(t, want, b)
	require.False(t, mark(b), "again")
	require.False(t, mark(b[:20]))
	b[15] &^= 3
	require.False(t, mark(b))
	v6 := make([]byte, 60)
	v6[12], v6[13], v6[14], v6[15] = 0x86, 0xdd, 0x60, 1<<4
	require.True(t, mark(v6))
	require.EqualValues(t, 3<<4, v6[15])
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Rate: -1}, {Every: -1}, {Trim: &fabric.Trim{}}, {Trim: &fabric.Trim{Weight: 1, Header: MaxFrame + 1}},
		{Trim: &fabric.Trim{Weight: 1, SafeAcks: true}}, {Trim: &fabric.Trim{Weight: 1, Threshold: 5000, ThresholdRate: units.Gbit}},
		{Trim: &fabric.Trim{Weight: 1, Carry: 65}}, {Trim: &fabric.Trim{Weight: 1, Carry: 2, Header: 256}}} {
		_, err := NewPort(c)
		require.Error(t, err)
	}
}

// BenchmarkPort is what a frame costs without its system calls.
func BenchmarkPort(b *testing.B) {
	p := newPort(b, Config{Queue: 64 * units.KiB, Trim: &fabric.Trim{Weight: 1}})
	data := write(trim.Data, 1024, 1)
	for b.Loop() {
		p.put(1, data)
		p.release(p.dequeue(1))
	}
}
