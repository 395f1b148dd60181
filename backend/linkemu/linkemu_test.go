// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/units"
)

const ms = units.Millisecond

func TestDelay(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: 20 * ms}, 64)
	copy(p.a.mem.Bytes(), "early")
	p.write(1, 5)
	p.send("frame")
	p.runUntil(units.Instant(10*ms - 1))
	require.Empty(t, p.a.got, "the write still reads its memory")
	copy(p.a.mem.Bytes(), "final")
	p.run()
	require.Equal(t, units.Instant(10*ms), p.net.Now())
	require.Equal(t, []uint64{0}, p.a.sent())
	require.Equal(t, []uint32{0}, p.b.imms())
	require.Equal(t, "final", string(p.b.mem.Bytes()[:5]))
	require.Equal(t, []string{"frame"}, p.b.frames)
	require.Equal(t, uint32(7), p.a.got[0].Cookie)
}

// The rate counts header bytes and is exact over any number of packets.
func TestRate(t *testing.T) {
	p := newVirtualPair(t, sim.Config{HeaderBytes: 76}, Config{Rate: units.Gbit, RTT: 2 * ms}, 32)
	p.write(1000, 1024)
	p.run()
	require.Len(t, p.b.imms(), 1000)
	require.True(t, slices.IsSorted(p.b.imms()))
	last := p.b.times[len(p.b.times)-1]
	// 32 packets wait in the device, each until it has crossed the link: the
	// sender is held back by its depth, not by the rate.
	require.Greater(t, last, units.Instant(1000*8800).Add(ms))

	p = newVirtualPair(t, sim.Config{HeaderBytes: 76}, Config{Rate: units.Gbit, RTT: 2 * ms}, 1000)
	p.write(1000, 1024)
	p.run()
	require.Equal(t, units.Instant(1000*8800).Add(ms), p.net.Now())
}

func TestPacketsInFlight(t *testing.T) {
	c := Config{Rate: units.Gbit, RTT: 25 * ms}
	n := c.PacketsInFlight(1024)
	require.InDelta(t, 12.5e6/8/1024, n, 32)
	p := newVirtualPair(t, sim.Config{}, c, n)
	p.write(4*n, 1024)
	p.run()
	require.InEpsilon(t, 4*float64(n)*1024*8+12.5e6, float64(p.net.Now()), 0.01, "this depth suffices")
	require.Zero(t, Config{RTT: ms}.PacketsInFlight(1024))
	fastest := Config{RTT: 3600 * units.Second, ChannelRate: []units.Rate{1 << 62, 1 << 62, 1 << 62}}
	require.NoError(t, fastest.Validate())
	require.EqualValues(t, math.MaxInt64, fastest.TotalRate())
	require.Positive(t, fastest.PacketsInFlight(1024))
}

func TestQueue(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{Rate: units.Gbit, Queue: 10 * 1024}, 64)
	p.write(64, 1024)
	p.run()
	require.Len(t, p.b.imms(), 11, "ten wait, one is on its way")
	require.Len(t, p.a.sent(), 64, "dropped ones complete too")
	require.Equal(t, uint64(53), p.a.dev.Stats().Drops[backend.DropEmulatedQueue])
}

// TestMarks: what finds more waiting than the threshold arrives marked, and the sender is told of it; nothing else is.
func TestMarks(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{Rate: units.Gbit, MarkAbove: 10 * 1024}, 64)
	p.write(40, 1024)
	p.send("control")
	p.run()
	require.Len(t, p.b.imms(), 40)
	for _, c := range p.b.got {
		switch c.Kind {
		case backend.KindDatagram:
			require.Zero(t, c.Flags, "control isn't ECN-capable")
		case backend.KindWrite:
			require.Equal(t, c.Imm > 10, c.Flags&backend.FlagECN != 0, "packet %d", c.Imm)
		}
	}
	told := 0
	for _, c := range p.a.got {
		if c.Kind == backend.KindCongestion {
			told++
		}
	}
	require.Positive(t, told)
}

// TestMarksOverSockets: the kernel carries the marks, whatever trains packets go in, and the receiver notifies the sender.
func TestMarksOverSockets(t *testing.T) {
	const count, size = 256, 1024
	p := newRealPair(t, Config{Rate: 20 * units.Mbit, MarkAbove: 32 * size}, count, nil)
	p.send(t, count, size)
	require.Eventually(t, func() bool { return p.arrived.Load() == count }, 5*time.Second, time.Millisecond)
	require.Eventually(t, func() bool {
		p.a.poll(t, p.a.dev.Now())
		return p.a.dev.Stats().Congestion.RPCNPHandled > 0
	}, 5*time.Second, time.Millisecond)
	p.stop(t)
	marked := p.b.dev.Stats().Congestion.NPMarked
	require.Positive(t, marked)
	require.Less(t, marked, uint64(count-size*32/(size+100)), "the first find less waiting")
}

// TestMarksNeedADeviceThatCarriesThem: a link whose marks nobody would see is refused.
func TestMarksNeedADeviceThatCarriesThem(t *testing.T) {
	d, err := userroce.Open(userroce.Config{Addr: netip.MustParseAddr("127.0.0.1"), Port: userroce.AnyPort})
	require.NoError(t, err)
	_, err = Wrap(d, Config{Rate: units.Gbit, MarkAbove: 1024})
	require.ErrorContains(t, err, "userroce with Config.ECN")
	require.NoError(t, d.Close())
}

// Which packets are lost depends on the seed alone: not on other faults, on how
// posts are batched, or on the other direction.
func TestLossIsRepeatable(t *testing.T) {
	lost := func(c Config, depth int) (v []uint32) {
		p := newVirtualPair(t, sim.Config{}, c, depth)
		p.write(2000, 8)
		p.run()
		got := map[uint32]bool{}
		for _, i := range p.b.imms() {
			got[i] = true
		}
		for i := range uint32(2000) {
			if !got[i] {
				v = append(v, i)
			}
		}
		require.Equal(t, uint64(len(v)), p.a.dev.Stats().Drops[backend.DropEmulatedLoss])
		require.Len(t, p.a.sent(), 2000)
		require.True(t, slices.IsSorted(p.a.sent()))
		return v
	}
	for _, c := range []Config{{Drop: 0.05, Seed: 1}, {Drop: 0.05, Burst: 8, Seed: 1}} {
		want := lost(c, 64)
		require.InDelta(t, 100, len(want), 80)
		require.Equal(t, want, lost(c, 7))
		full := c
		full.RTT, full.Rate, full.Jitter, full.Reorder, full.Duplicate = ms, units.Gbit, ms, 0.5, 0.3
		if c.Burst > 1 {
			full.Rate = 0 // with a rate, bursts are in time
		}
		require.Equal(t, want, lost(full, 64))
		c.Seed = 2
		require.NotEqual(t, want, lost(c, 64))
	}
}

// A completion says that all earlier writes are done too, so one that is passed
// on early, or lost, waits for those before it.
func TestSentIsInOrderDespiteReordering(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: 2 * ms, Reorder: 0.3, ReorderDelay: ms, Drop: 0.2, Duplicate: 0.3, Seed: 3}, 64)
	p.write(64, 8)
	arrived := map[uint32]units.Instant{}
	p.run()
	for i, c := range p.b.got {
		arrived[c.Imm] = p.b.times[i] // of two copies the second one's time
	}
	require.False(t, slices.IsSorted(p.b.imms()))
	want := make([]uint64, 64)
	for i := range want {
		want[i] = uint64(i)
	}
	require.Equal(t, want, p.a.sent())
	for i, c := range p.a.got {
		for j := range uint32(c.WRID) + 1 {
			require.GreaterOrEqual(t, p.a.times[i], arrived[j], "write %d reported as sent before %d was", c.WRID, j)
		}
	}
}

// TestClosedAddress: what waits for an address that is closed goes to nobody, also not to whom the real device has given the handle since.
func TestClosedAddress(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: 2 * ms}, 8)
	p.send("lost")
	require.NoError(t, p.a.dev.CloseAddress(p.a.to))
	n, err := p.a.ud.PostDatagrams(p.net.Now(), []backend.Datagram{{To: p.a.to}})
	require.ErrorContains(t, err, "unknown address handle")
	require.Zero(t, n)
	require.ErrorContains(t, p.a.dev.CloseAddress(p.a.to), "no such handle")
	again, err := p.a.dev.OpenAddress(p.b.ud.Info())
	require.NoError(t, err)
	require.Equal(t, p.a.to, again)
	p.send("1", "2")
	p.run()
	require.Equal(t, []string{"1", "2"}, p.b.frames)
	require.EqualValues(t, 1, p.a.dev.Stats().Drops[backend.DropQueueFull])
}

func TestDuplicate(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{Duplicate: 1}, 4)
	p.write(10, 8)
	for i := range 4 {
		p.send(fmt.Sprint(i))
	}
	p.run()
	require.Equal(t, []string{"0", "0", "1", "1", "2", "2", "3", "3"}, p.b.frames)
	require.Len(t, p.b.imms(), 20)
	require.Len(t, p.a.sent(), 10)
	require.Equal(t, uint64(14), p.a.dev.Stats().Duplicated)
}

// TestRecordsGrow: memory follows what is under way, wherever among the records that is, and not the depth.
func TestRecordsGrow(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: 2 * ms}, 1024)
	for _, n := range []int{10, 50, 200} {
		p.b.got, p.b.frames = nil, nil
		var want []string
		p.write(n, 8)
		for i := range n {
			want = append(want, fmt.Sprint(i))
		}
		p.send(want...)
		p.run()
		require.Len(t, p.b.imms(), n)
		require.True(t, slices.IsSorted(p.b.imms()))
		require.Equal(t, want, p.b.frames)
	}
	require.Len(t, p.a.uc.(*queuePair).writes.records, 256)
	require.Len(t, p.a.ud.(*queuePair).datagrams.records, 256)
}

// Each channel is a path of its own, also where several send to one CQ.
func TestChannelDelay(t *testing.T) {
	n, err := sim.New(sim.Config{})
	require.NoError(t, err)
	c := Config{RTT: 2 * ms, ChannelDelay: []units.Duration{0, 5 * ms}}
	p := &virtualPair{t: t, net: n, a: newSide(t, n.A(), c, 16), b: newSide(t, n.B(), Config{}, 16)}
	connect(t, p.a, p.b)
	connect(t, p.b, p.a)
	slow, err := p.a.dev.NewQP(backend.QPConfig{Type: backend.UD, SendCQ: p.a.cq, RecvCQ: p.a.cq, MTU: testMTU, Channel: 3, SendDepth: 4})
	require.NoError(t, err)
	_, err = slow.PostDatagrams(0, []backend.Datagram{{To: p.a.to, Data: []byte("slow")}})
	require.NoError(t, err)
	p.send("fast")
	p.run()
	require.Equal(t, []string{"fast", "slow"}, p.b.frames)
	require.Equal(t, []units.Instant{units.Instant(ms), units.Instant(6 * ms)}, p.b.times)
}

// Packets of a poster that looked at the clock some time ago aren't there before the link's delay is over.
func TestDelayCountsFromThePost(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: 2 * ms}, 8)
	p.net.Advance(units.Instant(10 * ms))
	w := backend.Write{VA: p.b.va, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: 1}
	n, err := p.a.uc.PostWrites(units.Instant(9500*units.Microsecond), []backend.Write{w})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	p.runUntil(units.Instant(11*ms) - 1)
	require.Empty(t, p.b.imms())
	p.run()
	require.Len(t, p.b.imms(), 1)
}

// A real device with little room delays packets, and loses none.
func TestInnerDeviceWithLittleRoom(t *testing.T) {
	p := newVirtualPair(t, sim.Config{Rate: 100 * units.Mbit}, Config{RTT: ms}, 8)
	p.write(100, 1000)
	p.send("a", "b", "c")
	p.run()
	require.Len(t, p.b.imms(), 100)
	require.True(t, slices.IsSorted(p.b.imms()))
	require.Len(t, p.a.sent(), 100)
	require.Equal(t, []string{"a", "b", "c"}, p.b.frames)
}

// After the worker has been kept waiting, packets that are overdue follow each
// other no faster than the receiver can take them.
func TestLateWorkerCausesNoLoss(t *testing.T) {
	p := newVirtualPair(t, sim.Config{RecvBurst: 8 * 1024}, Config{Rate: units.Gbit, RTT: 2 * ms}, 256)
	p.write(256, 1024)
	p.net.Advance(units.Instant(10 * ms)) // all are overdue
	p.run()
	require.Len(t, p.b.imms(), 256)
	require.True(t, slices.IsSorted(p.b.imms()))
	require.Zero(t, p.b.dev.Stats().Drops[backend.DropQueueFull])
	// 4 KiB at a time, at the least rate for catching up.
	require.Equal(t, units.Instant(10*ms).Add(63*(10*units.Gbit).Time(4096)), p.net.Now())
}

func TestErrorsOfTheRealDeviceComplete(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: ms}, 8)
	w := []backend.Write{
		{WRID: 1, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: 1, Signaled: true},
		{WRID: 2, RKey: p.b.rkey, LKey: 99, Length: 1},
		{WRID: 3, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: 1, Signaled: true},
	}
	n, err := p.a.uc.PostWrites(0, w)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	p.run()
	require.Equal(t, []uint64{1, 2, 3}, p.a.sent(), "an error completes although it was not signalled")
	require.Equal(t, backend.StatusError, p.a.got[1].Status)
	require.Equal(t, backend.StatusOK, p.a.got[2].Status)
	_, err = p.a.uc.PostWrites(0, []backend.Write{{Length: testMTU + 1}})
	require.ErrorContains(t, err, "exceeds the MTU")
}

func TestCloseGivesUpWhatWaits(t *testing.T) {
	p := newVirtualPair(t, sim.Config{}, Config{RTT: 2 * ms}, 8)
	p.write(4, 8)
	p.send("stays")
	require.NoError(t, p.a.uc.Close())
	p.run()
	require.Empty(t, p.b.imms())
	require.Empty(t, p.a.sent())
	require.Equal(t, []string{"stays"}, p.b.frames)
	_, err := p.a.uc.PostWrites(0, make([]backend.Write, 1))
	require.ErrorIs(t, err, backend.ErrClosed)
	require.NoError(t, p.a.ud.Close())
	require.NoError(t, p.a.cq.Close())
	require.NoError(t, p.a.dev.Close())
}

func TestValidate(t *testing.T) {
	for want, c := range map[string]Config{
		"RTT of -1 ns: must be between 0 and 1 hour":           {RTT: -1},
		"drop probability 1.5: must be between 0 and 1":        {Drop: 1.5},
		"mean burst of 0.5 packets: must be 0":                 {Drop: 0.1, Burst: 0.5},
		"at most 0.8 is possible in bursts of mean 4":          {Drop: 0.9, Burst: 4},
		"drop probability within bursts 0.05":                  {Drop: 0.1, Burst: 4, BurstDrop: 0.05},
		"reorder probability -1: must be between 0 and 1":      {Reorder: -1},
		"duplicate probability 2: must be between 0 and 1":     {Duplicate: 2},
		"link rate -1 bit/s: must not be negative":             {Rate: -1},
		"link queue of 1 KiB without a rate":                   {Queue: 1024},
		"jitter of -1 ns: must be between 0 and 3600 s":        {Jitter: -1},
		"channel delay of -5 ns: must be between 0 and 3600 s": {ChannelDelay: []units.Duration{0, -5}},
	} {
		require.ErrorContains(t, c.Validate(), want)
		_, err := Wrap(nil, c)
		require.Error(t, err)
	}
	require.NoError(t, Config{}.Validate())
}

// With a rate, bursts have a length in time: they pass while nothing is sent.
func TestBurstsHaveALengthInTime(t *testing.T) {
	caps := backend.Caps{MaxMTU: 4096, PathMTU: 9000, HeaderBytes: 64}
	l := burstInTime(netsim.Loss{Drop: 0.1, Burst: 8}, units.Gbit, caps)
	require.Equal(t, netsim.Loss{Drop: 0.1, BurstTime: units.Gbit.Time(8 * (4096 + 64))}, l)
	require.NoError(t, l.Validate())
	l = netsim.Loss{Drop: 0.1, Burst: 8}
	require.Equal(t, l, burstInTime(l, 0, caps), "without a rate nothing says how long a packet takes")
}

// TestClosedQueuePairsLeaveNothing: what a closed queue pair had to be told is forgotten, and so is what the real device owed it: with
// more of that than may be outstanding, the others of its completion queue go on.
func TestClosedQueuePairsLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		net  sim.Config
		link Config
	}{
		"to be told": {sim.Config{}, Config{Drop: 1}},          // they are sent at once
		"owed":       {sim.Config{Rate: units.Mbit}, Config{}}, // it takes a while
	} {
		p := newVirtualPair(t, c.net, c.link, 8)
		for range maxSignals + 10 {
			q, err := p.a.dev.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: p.a.cq, RecvCQ: p.a.cq, Cookie: 1, MTU: testMTU, SendDepth: 8, RecvDepth: 8})
			require.NoError(t, err)
			require.NoError(t, q.Connect(p.b.uc.Info()))
			for range 3 {
				_, err = q.PostWrites(p.net.Now(), []backend.Write{{VA: p.b.va, RKey: p.b.rkey, LKey: p.a.mem.LKey(), Length: 8, Signaled: true}})
				require.NoError(t, err)
			}
			_, err = p.a.cq.Poll(p.net.Now(), p.a.dst[:1])
			require.NoError(t, err)
			require.NoError(t, q.Close())
			p.a.poll(t, p.net.Now())
			require.Empty(t, p.a.got, name)
		}
		p.write(1, 8)
		p.run()
		require.Equal(t, []uint64{0}, p.a.sent(), name)
		require.EqualValues(t, 7, p.a.got[0].Cookie, name)
	}
}
