// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

// ends makes both ends, which begin with message msn and packet psn.
func ends(c Config, msn, psn uint32) (*Requester, *Responder) {
	d := c.Complete(10 * units.Microsecond)
	return NewRequester(d, congestion.Path{MTU: 1024}, msn, psn), NewResponder(d, msn)
}

// faults are probabilities per packet.
type faults struct {
	trim, lose, spoil, duplicate float64
	// early: the timer fires although what it waits for is under way.
	early float64
	// unchecked: nobody looks at the check of header-only packets.
	unchecked bool
	// down: everything is lost from here on.
	down int
	// silent, if not nil, is for how long nothing had been acknowledged when the transfer ended.
	silent *units.Duration
}

// under is a packet on its way.
type under struct {
	h       Header
	index   uint32
	payload bool
	ack     bool
	toSend  bool // towards the requester
}

var addresses = []byte{10, 0, 0, 1, 10, 0, 0, 2}

// transfer carries messages between both ends through a network that reorders at will, and returns how many
// messages completed with holes.
func transfer(t *testing.T, c Config, seed uint64, f faults) (holes int, req *Requester, rsp *Responder) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 77))
	const start = 1<<24 - 4
	req, rsp = ends(c, start, start-100)
	messages := 1 + r.IntN(20)
	sizes := make([]int, messages)
	placed := make([]map[uint32]bool, messages)
	for i := range sizes {
		sizes[i], placed[i] = 1+r.IntN(40), map[uint32]bool{}
	}
	var now units.Instant
	var net []under
	posted, completed, arrived := 0, 0, 0
	acked := now
	put := func(u under) {
		if u.ack || u.payload || u.h.Returned || !u.toSend {
			u.h.Check = u.h.Sum(addresses)
		}
		net = append(net, u)
	}
	answer := func(a Answer, u under) {
		for range a.Completed {
			if len(placed[arrived]) != sizes[arrived] {
				holes++
			}
			arrived++
		}
		if a.Return {
			u.h.Returned, u.toSend = true, true
			put(u)
		}
		if a.Ack {
			net = append(net, under{h: Header{MSN: a.Expected}, ack: true, toSend: true})
		}
	}
	for steps := 0; completed < messages && req.Err() == nil; steps++ {
		require.Less(t, steps, 1_000_000, "seed %d: no end", seed)
		for posted < messages {
			if _, err := req.Post(sizes[posted]); err != nil {
				require.ErrorIs(t, err, ErrFull)
				break
			}
			posted++
		}
		var h Header
		if index, _, ok := req.Transmit(now, &h); ok {
			h.Opcode, h.DestQP = trim.OpWrite, 0x1234
			put(under{h: h, index: index, payload: true})
			if r.IntN(3) > 0 {
				continue
			}
		}
		if len(net) == 0 || req.Next() != units.Never && r.Float64() < f.early {
			now = max(now, req.Next())
			req.OnTimer(now)
			continue
		}
		now = now.Add(100)
		i := r.IntN(len(net))
		u := net[i]
		if !u.ack && r.Float64() < f.duplicate {
			net = append(net, u)
		}
		net[i] = net[len(net)-1]
		net = net[:len(net)-1]
		if f.down > 0 && steps > f.down || r.Float64() < f.lose {
			continue
		}
		switch {
		case u.ack:
			n := req.OnAck(now, u.h.MSN)
			if completed += n; n > 0 {
				acked = now
			}
			require.LessOrEqual(t, completed, arrived, "seed %d", seed)
			continue
		case u.payload && r.Float64() < f.trim:
			u.payload = false
			net = append(net, u)
			continue
		case !u.payload && r.Float64() < f.spoil:
			spoil(r, &u.h)
		}
		if !u.payload && !f.unchecked && u.h.Check != u.h.Sum(addresses) {
			continue
		}
		switch m := int(after(u.h.MSN, start)); {
		case u.toSend:
			req.OnReturned(now, &u.h)
		case !u.payload:
			answer(rsp.OnHeader(now, &u.h), u)
		default:
			a := rsp.OnData(now, &u.h, u.index, uint32(sizes[m]))
			if a.Place {
				placed[m][u.index] = true
			}
			answer(a, u)
		}
	}
	if f.silent != nil {
		*f.silent = now.Sub(acked)
	}
	return holes, req, rsp
}

// spoil flips a bit of what the check covers.
func spoil(r *rand.Rand, h *Header) {
	switch r.IntN(3) {
	case 0:
		h.PSN ^= 1 << r.IntN(5)
	case 1:
		h.MSN ^= 1 << r.IntN(2)
	default:
		h.Round ^= 1 << r.IntN(2)
	}
}

func seeds() uint64 {
	if testing.Short() || race.Enabled {
		return 100
	}
	return 1000
}

// All messages arrive whole through reordering, trims, losses of all kinds and damaged headers, while message and packet numbers wrap.
func TestFaults(t *testing.T) {
	for _, track := range []Track{Counter, Bitmap} {
		var trims, stale, timeouts, failed uint64
		for seed := range seeds() {
			f := faults{trim: 0.2, lose: 0.002, spoil: 0.02, early: 0.001}
			if track == Bitmap {
				f.duplicate = 0.02
			}
			holes, req, _ := transfer(t, Config{Track: track}, seed, f)
			require.Zero(t, holes, "seed %d", seed)
			if req.Err() != nil {
				require.ErrorIs(t, req.Err(), ErrRetries)
				failed++
			}
			trims, stale, timeouts = trims+req.Trims, stale+req.Stale, timeouts+req.Timeouts
		}
		require.Greater(t, trims, 10*seeds())
		require.Greater(t, stale, seeds()/10)
		require.Greater(t, timeouts, seeds()/10)
		require.Less(t, failed, seeds()/50)
		t.Logf("track %d: %d trims, %d stale, %d timeouts, %d of %d failed", track, trims, stale, timeouts, failed, seeds())
	}
}

// Without losses of headers there is no timeout, and each packet is sent once and once more for each trim.
func TestExactlyOnce(t *testing.T) {
	for seed := range seeds() / 10 {
		holes, req, rsp := transfer(t, Config{}, seed, faults{trim: 0.3})
		require.Zero(t, holes)
		require.Zero(t, req.Timeouts+req.Stale+req.Overflows+rsp.Late+rsp.Ahead, "seed %d", seed)
		require.Equal(t, req.Repeated, req.Trims, "seed %d", seed)
	}
}

// Nobody checks headers, and some are damaged: counting fails, bits don't.
func TestUncheckedHeaders(t *testing.T) {
	total := map[Track]int{}
	for _, track := range []Track{Counter, Bitmap} {
		for seed := range seeds() / 5 {
			holes, _, _ := transfer(t, Config{Track: track}, seed, faults{trim: 0.3, spoil: 0.05, unchecked: true})
			total[track] += holes
		}
	}
	require.Positive(t, total[Counter], "the check is of no use")
	require.Zero(t, total[Bitmap])
	t.Logf("%d messages with holes", total[Counter])
}

// A path that fails ends in an error after the retries, each twice as long as the one before: within 15 timeouts of the last acknowledgement for three.
func TestPathFailure(t *testing.T) {
	const retries = 3
	rto := (&Config{}).Complete(10 * units.Microsecond).RTO
	failed, longest := 0, units.Duration(0)
	for seed := range seeds() {
		var silent units.Duration
		_, req, _ := transfer(t, Config{Retries: retries}, seed, faults{trim: 0.2, lose: 0.002, spoil: 0.02, down: int(30 + seed%300), silent: &silent})
		if req.Err() == nil {
			require.Zero(t, req.Outstanding(), "seed %d: it had ended by then", seed)
			continue
		}
		failed, longest = failed+1, max(longest, silent)
		require.ErrorIs(t, req.Err(), ErrRetries)
		require.Equal(t, units.Never, req.Next())
		_, err := req.Post(1)
		require.ErrorIs(t, err, ErrRetries)
		var h Header
		_, _, ok := req.Transmit(0, &h)
		require.False(t, ok)
	}
	t.Logf("%d of %d transfers end with an error, at most %v after the last acknowledgement: %.2f timeouts", failed, seeds(), longest, float64(longest)/float64(rto))
	require.Greater(t, failed, int(seeds()/2))
	require.Less(t, float64(longest), 15.05*float64(rto))
	require.Greater(t, float64(longest), 14.9*float64(rto))
}

// A round of the scheduler repeats at most sixteen packets that were returned, before new ones.
func TestBatches(t *testing.T) {
	req, _ := ends(Config{}, 0, 0)
	_, err := req.Post(100)
	require.NoError(t, err)
	var h Header
	for range 40 {
		_, repeat, ok := req.Transmit(0, &h)
		require.True(t, ok && !repeat)
	}
	for i := range uint32(20) {
		req.OnReturned(0, &Header{PSN: i})
	}
	var order []uint32
	for range 40 {
		index, _, _ := req.Transmit(0, &h)
		order = append(order, index)
	}
	// 40 packets are two and a half rounds: eight new ones end the third.
	want := []uint32{40, 41, 42, 43, 44, 45, 46, 47}
	for i := range uint32(20) {
		want = append(want, i)
	}
	for i := range uint32(12) {
		want = append(want, 48+i)
	}
	require.Equal(t, want, order)
}

// What a peer may claim: acknowledgements of what was not sent, headers of packets that were not.
func TestLies(t *testing.T) {
	req, rsp := ends(Config{}, 5, 0)
	_, err := req.Post(10)
	require.NoError(t, err)
	var h Header
	req.Transmit(0, &h)
	require.Zero(t, req.OnAck(0, 6), "most of the message has not been sent")
	require.Zero(t, req.OnAck(0, 7))
	require.Zero(t, req.OnAck(0, 4))
	for _, h := range []Header{{MSN: 4}, {MSN: 6}, {MSN: 5, PSN: 1}, {MSN: 5, PSN: mask24}, {MSN: 5, Round: 1}} {
		req.OnReturned(0, &h)
	}
	require.EqualValues(t, 5, req.Stale)
	require.Zero(t, req.Trims)
	for range queueMost + 3 { // one header, over and over
		req.OnReturned(0, &Header{MSN: 5})
	}
	require.EqualValues(t, queueMost, req.Trims)
	require.EqualValues(t, 3, req.Overflows)
	for _, h := range []Header{{MSN: 5 + InFlight}, {MSN: 5 + 1<<22}} {
		require.Equal(t, Answer{}, rsp.OnData(0, &h, 0, 1))
		require.Equal(t, Answer{}, rsp.OnHeader(0, &h))
	}
	require.Equal(t, Answer{}, rsp.OnData(0, &Header{MSN: 5}, 10, 10))
	require.Equal(t, Answer{}, rsp.OnData(0, &Header{MSN: 5}, 0, MostPackets+1))
	require.True(t, rsp.OnData(0, &Header{MSN: 5}, 0, 10).Place)
	require.Equal(t, Answer{}, rsp.OnData(0, &Header{MSN: 5}, 1, 11), "another length than before")
	require.True(t, rsp.OnData(0, &Header{MSN: 6}, 0, 1).Place)
	require.Equal(t, Answer{}, rsp.OnData(0, &Header{MSN: 6, Round: 1}, 0, 1), "whole, though not yet its turn")
	require.Equal(t, Refusals{Late: 1, Ahead: 7}, rsp.Refusals)
	for _, n := range []int{0, -1, MostPackets + 1} {
		_, err := req.Post(n)
		require.ErrorIs(t, err, ErrSize)
	}
}

// The longest message is counted to its end.
func TestLongestMessage(t *testing.T) {
	req, rsp := ends(Config{}, 0, 0)
	_, err := req.Post(MostPackets)
	require.NoError(t, err)
	var h Header
	for i := range MostPackets {
		index, _, ok := req.Transmit(0, &h)
		require.True(t, ok)
		a := rsp.OnData(0, &h, index, MostPackets)
		require.Equal(t, i == MostPackets-1, a.Ack)
	}
	require.Equal(t, 1, req.OnAck(0, rsp.Expected()))
}

// Repeats of what is whole are acknowledged again, at most once in a round trip.
func TestAckAgain(t *testing.T) {
	_, rsp := ends(Config{}, 0, 0)
	require.Equal(t, Answer{Place: true, Completed: 1, Ack: true, Expected: 1}, rsp.OnData(0, &Header{}, 0, 1))
	require.Equal(t, Answer{Ack: true, Expected: 1}, rsp.OnData(1, &Header{}, 0, 1))
	require.Equal(t, Answer{}, rsp.OnData(2, &Header{}, 0, 1))
	require.Equal(t, Answer{Ack: true, Expected: 1}, rsp.OnHeader(units.Instant(20*units.Microsecond), &Header{}))
}

func TestHeader(t *testing.T) {
	h := Header{MSN: 0xabcdef, PSN: 0x123456, Round: 7, Opcode: trim.OpSend, DestQP: 0x765432, Returned: true}
	h.Check = h.Sum(addresses)
	var b [HeaderSize]byte
	h.Put(b[:], 0xffff)
	require.EqualValues(t, trim.HeaderSize, 14+20+8+HeaderSize, "the least frame of Ethernet")
	var g Header
	require.NoError(t, g.Parse(b[:]))
	require.Equal(t, h, g)
	require.ErrorIs(t, g.Parse(b[:HeaderSize-1]), ErrShort)
	for bit := range 8 * HeaderSize {
		b[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, g.Parse(b[:]))
		covered := g != h
		require.Equal(t, covered, g.Check != g.Sum(addresses), "bit %d", bit)
		b[bit/8] ^= 1 << (bit % 8)
	}
	require.NotEqual(t, h.Check, h.Sum([]byte{10, 0, 0, 1, 10, 0, 0, 3}), "addresses count")
	require.EqualValues(t, 0x29b1, crc(0xffff, []byte("123456789")), "the known answer of this CRC")
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("0123456789abcdefgh"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, g Header
		if h.Parse(b) != nil {
			return
		}
		var c [HeaderSize]byte
		h.Put(c[:], roce.BTH(b[:roce.BTHSize]).PKey())
		require.NoError(t, g.Parse(c[:]))
		require.Equal(t, h, g)
		req, rsp := ends(Config{}, h.MSN, h.PSN)
		req.OnReturned(0, &h)
		rsp.OnHeader(0, &h)
		rsp.OnData(0, &h, uint32(h.Check), uint32(h.Round))
	})
}

// What a queue pair costs its receiver in memory.
func TestSizes(t *testing.T) {
	require.EqualValues(t, StateBytes, unsafe.Sizeof(tracker{}))
	require.LessOrEqual(t, StateBytes, 64)
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(12))
	t.Logf("%d bytes a queue pair for 8 messages, of at most 64; %d for each packet to be repeated", StateBytes, unsafe.Sizeof(entry{}))
}

func TestValidate(t *testing.T) {
	for _, c := range []Config{{Track: 2}, {Retries: 256}, {Message: MostPackets + 1}, {RTO: -1}, {Batch: -1}} {
		require.Error(t, c.Validate(), "%+v", c)
	}
	require.NoError(t, (&Config{}).Validate())
}

// cycle sends a packet and delivers it; one in eight is trimmed, returned and repeated.
func cycle(req *Requester, rsp *Responder, n int) {
	var h Header
	if req.Outstanding() < InFlight {
		_, _ = req.Post(1000)
	}
	index, repeat, ok := req.Transmit(units.Instant(n), &h)
	if !ok {
		return
	}
	if n%8 == 0 && !repeat {
		if rsp.OnHeader(units.Instant(n), &h).Return {
			req.OnReturned(units.Instant(n), &h)
		}
		return
	}
	if a := rsp.OnData(units.Instant(n), &h, index, 1000); a.Ack {
		req.OnAck(units.Instant(n), a.Expected)
	}
}

func TestNoAllocation(t *testing.T) {
	for _, track := range []Track{Counter, Bitmap} {
		req, rsp := ends(Config{Track: track}, 0, 0)
		n := 0
		step := func() { cycle(req, rsp, n); n++ }
		for range 50_000 {
			step()
		}
		require.Zero(t, testing.AllocsPerRun(10_000, step), "track %d", track)
	}
}

// BenchmarkPacket is what a packet costs both ends together, one in eight of them trimmed. The bound is 60 ns and no allocation.
func BenchmarkPacket(b *testing.B) {
	req, rsp := ends(Config{}, 0, 0)
	b.ReportAllocs()
	for n := range b.N {
		cycle(req, rsp, n)
	}
	b.ReportMetric(60, "bound-ns/op")
}

// However many timeouts a message may have, each takes twice as long as the one before up to a minute, and a minute from then on.
func TestLastTimeouts(t *testing.T) {
	req, _ := ends(Config{Retries: 255}, 0, 0)
	_, err := req.Post(1)
	require.NoError(t, err)
	var h Header
	var now units.Instant
	wait := (&Config{}).Complete(10 * units.Microsecond).RTO
	for i := range 256 {
		_, _, ok := req.Transmit(now, &h)
		require.True(t, ok)
		require.EqualValues(t, i, h.Round)
		require.Equal(t, wait, req.Next().Sub(now), "timeout %d", i)
		now = req.Next()
		req.OnTimer(now)
		wait = min(2*wait, units.Minute)
	}
	require.ErrorIs(t, req.Err(), ErrRetries)

	// An acknowledgement ends the doubling.
	req, _ = ends(Config{RTO: units.Millisecond}, 0, 0)
	for range 2 {
		_, err = req.Post(1)
		require.NoError(t, err)
	}
	req.Transmit(0, &h)
	now = req.Next()
	req.OnTimer(now)
	req.Transmit(now, &h)
	require.Equal(t, 2*units.Millisecond, req.Next().Sub(now))
	require.Equal(t, 1, req.OnAck(now, 1))
	req.Transmit(now, &h)
	require.Equal(t, units.Millisecond, req.Next().Sub(now))
}
