// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// greedy sends without end, as fast as its link does; its receiver counts what arrives whole.
type greedy struct {
	psn           uint32
	mtu           uint16
	whole, header *int
	from          *units.Instant // when it begins to count
}

func (g *greedy) Transmit(_ units.Instant, p *transport.Packet) bool {
	*p = transport.Packet{Kind: transport.Data, PSN: g.psn, Payload: g.mtu}
	g.psn++
	return true
}
func (g *greedy) Pace(units.Instant) units.Rate { return 0 }
func (g *greedy) OnTimer(units.Instant)         {}
func (g *greedy) Next() units.Instant           { return units.Never }
func (g *greedy) Done() bool                    { return false }
func (g *greedy) Complete() bool                { return false }

type greedySender struct{ greedy }

func (*greedySender) OnPacket(units.Instant, *transport.Packet) {}

type greedyReceiver struct{ greedy }

func (g *greedyReceiver) OnPacket(now units.Instant, p *transport.Packet, _ *transport.Replies) {
	switch {
	case now < *g.from:
	case p.Flags&transport.Trimmed != 0:
		*g.header++
	default:
		*g.whole++
	}
}

const (
	trimMTU     = 1024
	trimHeaders = 76
	trimKept    = 57 // r = 1100/57 = 19.3: the paper's header and a payload of 1 KiB
)

// runIncast has n greedy senders at one switch, and returns the bytes of data that arrived over what the
// link carries in the time, and the share of header-only packets that were lost.
func runIncast(t *testing.T, n, radix int, control units.Bytes) (goodput, lost float64, s *Sim) {
	t.Helper()
	w, err := trim.Weight(radix, float64(trimMTU+trimHeaders)/trimKept)
	require.NoError(t, err)
	return incast(t, n, w, 2*units.Millisecond, Trim{Header: trimKept, ControlLimit: control})
}

// incast is runIncast with a weight, what else a switch has, and a time.
func incast(t *testing.T, n int, weight float64, long units.Duration, c Trim) (goodput, lost float64, s *Sim) {
	t.Helper()
	c.Weight, c.Threshold = weight, 100*units.KB
	var whole, header int
	warm := units.Instant(min(200*units.Microsecond, long))
	from := warm
	s, err := New(star(n+1, 100*units.Gbit, units.Microsecond), Config{
		MTU: trimMTU, Header: trimHeaders, CheckEvery: 20_000,
		Trim: &c,
	})
	require.NoError(t, err)
	for i := range n {
		g := greedy{mtu: trimMTU, whole: &whole, header: &header, from: &from}
		st, err := s.AddStream(Stream{Src: i, Dst: n, SrcPort: uint16(i), Class: DataClass}, &greedySender{g}, &greedyReceiver{g})
		require.NoError(t, err)
		s.Wake(st)
	}
	s.Advance(des.Span(units.Duration(warm) + long))
	require.NoError(t, s.Check())
	r := s.Result()
	line := (100 * units.Gbit).Bytes(long)
	return float64(whole*(trimMTU+trimHeaders)) / float64(line), float64(r.Packets.Headers) / float64(r.Packets.Trimmed), s
}

// N senders into one port that trims. What is left of the line for data is x = (1−n/r)/(1−1/r) as long as the
// control queue loses nothing, for which w = (N−1)/(r−N+1) is enough up to n = N−1.
func TestIncastGoodput(t *testing.T) {
	r := float64(trimMTU+trimHeaders) / trimKept
	for _, tc := range []struct{ n, radix int }{{2, 16}, {8, 16}, {8, 9}, {15, 16}} {
		want := (1 - float64(tc.n)/r) / (1 - 1/r)
		got, lost, _ := runIncast(t, tc.n, tc.radix, units.MB)
		t.Logf("n = %d, N = %d: %.4f of the line, formula %.4f; headers lost %g", tc.n, tc.radix, got, want, lost)
		require.InEpsilon(t, want, got, 0.03, "%+v", tc)
		require.Zero(t, lost, "%+v", tc)
	}
}

// One sender more than the weight is for: the control queue gets more than it drains, fills, and loses the rest.
func TestIncastBeyondWeight(t *testing.T) {
	r := float64(trimMTU+trimHeaders) / trimKept
	w, err := trim.Weight(16, r)
	require.NoError(t, err)
	const n = 16
	data := 1 / (1 + w) // both queues always have something: data get their share
	in, out := (n-data)/r, w/(1+w)
	got, lost, _ := runIncast(t, n, n, 50*units.KB)
	t.Logf("data %.4f of the line, formula %.4f; headers lost %.4f, formula %.4f", got, data, lost, 1-out/in)
	require.InEpsilon(t, data, got, 0.03)
	require.InEpsilon(t, 1-out/in, lost, 0.15) // the queue's fill counts
}

// The ratio of sizes is a parameter: as simulators count, and as Ethernet does.
func TestIncastRatios(t *testing.T) {
	for _, tc := range []struct {
		name               string
		mtu, headers, kept units.Bytes
		radix              int
	}{
		{"ns3", 1000, 48, 48, 22}, {"ethernet", 1024, 104, trim.Ethernet.Size(trim.HeaderSize), 14},
	} {
		r := float64(tc.mtu+tc.headers) / float64(tc.kept)
		_, err := trim.Weight(tc.radix, r)
		require.NoError(t, err, tc.name)
		_, err = trim.Weight(tc.radix+1, r)
		require.Error(t, err, "%s: N = %d is the largest", tc.name, tc.radix)
	}
}

// Acknowledgements go with the data and may be dropped; returned headers go with the headers.
func TestTrimClasses(t *testing.T) {
	s, err := New(star(3, 100*units.Gbit, units.Microsecond), Config{Trim: &Trim{Weight: 1}})
	require.NoError(t, err)
	for _, tc := range []struct {
		kind  transport.Kind
		flags transport.Flags
		tag   trim.Tag
	}{
		{transport.Data, 0, trim.Data}, {transport.Data, transport.Trimmed, trim.HeaderOnly},
		{transport.Returned, transport.Trimmed, trim.HeaderOnly}, {transport.Ack, 0, trim.Ack}, {transport.CNP, 0, trim.Other},
	} {
		k := packet{kind: uint8(tc.kind), flags: tc.flags, size: 1000}
		require.Equal(t, tc.tag, s.tagOf(&k), "%v", tc.kind)
	}
	require.Equal(t, trim.HeaderOnly, s.tagOf(&packet{kind: uint8(transport.Data), size: 64}), "without payload")
	require.EqualValues(t, 60, s.cfg.Trim.Header)
	require.NoError(t, s.AddFlows(permutation(3, 100, 1)))
	k := packet{kind: uint8(transport.Returned), size: 64}
	s.classify(0, &k)
	require.Equal(t, packet{kind: uint8(transport.Returned) | ControlClass<<classShift, size: 60, flags: transport.Trimmed}, k)
	k = packet{kind: uint8(transport.Ack), size: 64}
	s.classify(0, &k)
	require.Equal(t, packet{kind: uint8(transport.Ack) | DataClass<<classShift, size: 64}, k)
}

// Losses that are asked for come at their rate, trimmed or dropped, and every packet is accounted for.
func TestForced(t *testing.T) {
	for _, trims := range []bool{false, true} {
		c := Config{MTU: trimMTU, Forced: 0.1, CheckEvery: 1000}
		if trims {
			c.Trim = &Trim{Weight: 1}
		}
		var whole, header int
		var from units.Instant
		s, err := New(star(2, 100*units.Gbit, units.Microsecond), c)
		require.NoError(t, err)
		g := greedy{mtu: trimMTU, whole: &whole, header: &header, from: &from}
		st, err := s.AddStream(Stream{Src: 0, Dst: 1, Class: DataClass}, &greedySender{g}, &greedyReceiver{g})
		require.NoError(t, err)
		s.Wake(st)
		s.Advance(des.Span(5 * units.Millisecond))
		r := s.Result()
		lost := r.Drops.Forced
		if trims {
			require.Zero(t, lost)
			lost = r.Packets.Trimmed
			require.InDelta(t, lost, header, 20, "but for what is on the wire")
		}
		require.InEpsilon(t, 0.1, float64(lost)/float64(r.Packets.Sent), 0.05, "trims %v", trims)
	}
}

// A threshold for ports of one rate is in proportion for others: what waits takes as long everywhere.
func TestTrimByRate(t *testing.T) {
	for _, tc := range []struct {
		of    units.Rate
		queue units.Bytes // that Buffer allows
		want  units.Bytes // at most, before a port of 100 Gbit/s
	}{{0, 0, 100 * units.KB}, {100 * units.Gbit, 0, 100 * units.KB}, {400 * units.Gbit, 0, 25 * units.KB}, {50 * units.Gbit, 0, 200 * units.KB}, {0, 60 * units.KB, 60 * units.KB}} {
		var whole, header int
		var from units.Instant
		s, err := New(star(9, 100*units.Gbit, units.Microsecond), Config{
			MTU: trimMTU, Header: trimHeaders, CheckEvery: 20_000,
			Trim:   &Trim{Header: trimKept, Weight: 1000, Threshold: 100 * units.KB, ThresholdRate: tc.of},
			Buffer: Buffer{QueueLimit: tc.queue},
		})
		require.NoError(t, err)
		for i := range 8 {
			g := greedy{mtu: trimMTU, whole: &whole, header: &header, from: &from}
			st, err := s.AddStream(Stream{Src: i, Dst: 8, SrcPort: uint16(i), Class: DataClass}, &greedySender{g}, &greedyReceiver{g})
			require.NoError(t, err)
			s.Wake(st)
		}
		most := units.Bytes(0)
		for at := des.Time(1e6); at < 200e6; at += 1e6 {
			s.Advance(at)
			most = max(most, s.Queued(9, 8))
		}
		// A packet joins while no more than the threshold waits; headers hardly do, with that weight.
		require.InDelta(t, float64(tc.want), float64(most), 3*(trimMTU+trimHeaders), "thresholds for %v", tc.of)
		require.Positive(t, header)
	}
}

func TestTrimValidate(t *testing.T) {
	for _, tc := range []struct {
		trim Trim
		b    Buffer
		want string
	}{
		{Trim{}, Buffer{}, "weight 0"}, {Trim{Weight: 1, Header: 5000}, Buffer{}, "less than a full packet's 4160"},
		{Trim{Weight: 1, Threshold: -1}, Buffer{}, "trimming from -1"}, {Trim{Weight: 1, ThresholdRate: units.Gbit - 1}, Buffer{}, "for ports of 999999999 bit/s"}, {Trim{Weight: 1}, Buffer{Size: units.MB, PFC: true}, "not both"},
	} {
		_, err := New(star(2, units.Gbit, 0), Config{Trim: &tc.trim, Buffer: tc.b})
		require.ErrorContains(t, err, tc.want)
	}
	_, err := New(star(2, units.Gbit, 0), Config{Forced: 2})
	require.ErrorContains(t, err, "forced loss")
}

// Memory that other ports have filled makes a switch trim, and in the end drop; nothing gets lost uncounted.
func TestTrimMemory(t *testing.T) {
	for _, size := range []units.Bytes{30 * units.KB, 100 * units.KB, 300 * units.KB} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var whole, header int
			var from units.Instant
			s, err := New(star(9, 100*units.Gbit, units.Microsecond), Config{
				MTU: trimMTU, Header: trimHeaders, CheckEvery: 500, Trim: &Trim{Header: trimKept, Weight: 0.2},
				Buffer: Buffer{Size: size, Alpha: 64, Reserve: -1},
			})
			require.NoError(t, err)
			for i := range 8 {
				g := greedy{mtu: trimMTU, whole: &whole, header: &header, from: &from}
				st, err := s.AddStream(Stream{Src: i, Dst: 8, Class: DataClass}, &greedySender{g}, &greedyReceiver{g})
				require.NoError(t, err)
				s.Wake(st)
			}
			s.Advance(des.Span(units.Millisecond))
			r := s.Result()
			require.Positive(t, r.Packets.Trimmed)
			require.Positive(t, r.Drops.Buffer, "the control queue takes less than its share, and memory ends")
			require.NoError(t, s.Check())
		})
	}
}
