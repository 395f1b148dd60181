// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func newLink(t testing.TB, c LinkConfig, seed uint64) *Link {
	t.Helper()
	require.NoError(t, c.Validate())
	return NewLink(&c, seed)
}

func carry(l *Link, now Time, n units.Bytes, channel int) Fate {
	return l.Carry(l.Loss(), now, n, channel)
}

func TestSerialization(t *testing.T) {
	require.Equal(t, Time(20), Serialization(1, 400*units.Gbit))
	require.Equal(t, Time(0), Serialization(1500, 0))
	require.Equal(t, Never, Serialization(units.TiB, 1))
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		n, r := rnd.Int64N(1<<rnd.IntN(40)+1)+1, rnd.Int64N(1<<(10+rnd.IntN(31)))+1
		want := new(big.Int).Mul(big.NewInt(n), big.NewInt(8e12))
		want.Add(want, big.NewInt(r-1)).Div(want, big.NewInt(r))
		if !want.IsInt64() {
			want = big.NewInt(int64(Never))
		}
		require.Equal(t, want.Int64(), int64(Serialization(units.Bytes(n), units.Rate(r))), "%d bytes at %d bit/s", n, r)
	}
}

func TestTimeConversions(t *testing.T) {
	require.Equal(t, Time(5000), At(5))
	require.Equal(t, units.Instant(5), Time(5000).Instant())
	require.Equal(t, units.Instant(6), Time(5001).Instant(), "by then it has happened")
	require.Equal(t, Never, At(units.Never))
	require.Equal(t, units.Never, Never.Instant())
	require.Equal(t, Never, Never.Add(1))
}

func TestPortServesInOrderAtItsRate(t *testing.T) {
	l := newLink(t, LinkConfig{Rate: 8 * units.Gbit, Queue: 250, MarkAbove: 150, Delay: 7}, 1)
	const ns = 1000
	for i, want := range []struct {
		left   Time
		marked bool
	}{{100 * ns, false}, {200 * ns, false}, {300 * ns, true}} {
		f := carry(l, 0, 100, 0)
		require.Equal(t, Fate{Left: want.left, Arrive: want.left + 7*ns, Again: want.left + 7*ns, Marked: want.marked}, f, i)
	}
	require.Equal(t, QueueFull, carry(l, 0, 1, 0).Outcome, "300 bytes wait, 250 may")
	require.Equal(t, Time(350*ns), carry(l, 50*ns, 50, 0).Left)
	require.Equal(t, Time(1100*ns), carry(l, 1000*ns, 100, 0).Left, "idle in between")
	require.Equal(t, Delivered, carry(l, 2000*ns, 1000, 0).Outcome, "an idle link takes any size")
}

// Over any run the link is as fast as it is said to be, to a picosecond a packet.
func TestRateIsExact(t *testing.T) {
	l := newLink(t, LinkConfig{Rate: 3 * units.Gbit}, 1)
	var last Time
	const n = 100_000
	for range n {
		last = carry(l, 0, 4096, 0).Left
	}
	exact := Serialization(n*4096, 3*units.Gbit)
	require.InDelta(t, float64(exact), float64(last), n)
}

func TestChannelsAreSeparatePaths(t *testing.T) {
	l := newLink(t, LinkConfig{Delay: 10, ChannelDelay: []units.Duration{0, 5, 1}}, 1)
	for channel, want := range []Time{10_000, 15_000, 11_000, 10_000} {
		require.Equal(t, want, carry(l, 0, 1, channel).Arrive)
	}
}

// Channels with rates of their own queue apart, are marked apart, and die at their times.
func TestChannelsHaveTheirOwnRates(t *testing.T) {
	l := newLink(t, LinkConfig{ChannelRate: []units.Rate{8 * units.Gbit, 800 * units.Mbit, 0}, ChannelDownAt: []units.Duration{0, 2500}, Queue: 250, MarkAbove: 150, Delay: 7}, 1)
	const ns = 1000
	require.Equal(t, Time(107*ns), carry(l, 0, 100, 0).Arrive)
	require.Equal(t, Time(1007*ns), carry(l, 0, 100, 1).Arrive)
	require.Equal(t, Time(7*ns), carry(l, 0, 100, 2).Arrive, "without limit")
	require.False(t, carry(l, 0, 100, 1).Marked)
	require.True(t, carry(l, 0, 100, 1).Marked)
	require.Equal(t, QueueFull, carry(l, 0, 100, 1).Outcome)
	require.Equal(t, Time(207*ns), carry(l, 0, 100, 3).Arrive, "channel 3 is channel 0")
	require.Equal(t, Lost, carry(l, 2500*ns, 100, 1).Outcome)
	require.Equal(t, Delivered, carry(l, 2500*ns, 100, 0).Outcome)
	for _, c := range []LinkConfig{
		{Rate: 1, ChannelRate: []units.Rate{1}}, {ChannelRate: []units.Rate{-1}}, {ChannelDownAt: []units.Duration{-1}},
	} {
		require.Error(t, c.Validate(), "%+v", c)
	}
}

func TestJitterKeepsOrderAndReorderDoesNot(t *testing.T) {
	for _, reorder := range []float64{0, 0.1} {
		c := LinkConfig{Delay: units.Millisecond, Jitter: 100 * units.Microsecond, Reorder: reorder, ReorderDelay: 50 * units.Microsecond}
		l := newLink(t, c, 9)
		var last [2]Time
		late, spread := 0, Time(0)
		const n = 20_000
		for i := range n {
			now := Time(i) * 1_000_000
			f := carry(l, now, 1, i%2)
			if f.Arrive < last[i%2] {
				late++
			}
			require.GreaterOrEqual(t, f.Arrive, now+Span(c.Delay))
			require.LessOrEqual(t, f.Arrive, now+Span(c.Delay+c.Jitter+c.ReorderDelay))
			require.GreaterOrEqual(t, f.Again, last[i%2]-Span(c.ReorderDelay))
			last[i%2] = max(last[i%2], f.Arrive)
			spread = max(spread, f.Arrive-now-Span(c.Delay))
		}
		require.Greater(t, spread, Span(c.Jitter)*9/10)
		require.Equal(t, reorder > 0, late > 0)
	}
}

func TestFaultFrequencies(t *testing.T) {
	l := newLink(t, LinkConfig{Duplicate: 0.1, Corrupt: 0.2, Reorder: 0.3, ReorderDelay: 1}, 4)
	var dup, corrupt, late int
	const n = 100_000
	for i := range n {
		f := carry(l, Time(i), 1, 0)
		if f.Duplicated {
			dup++
		}
		if f.Corrupted {
			corrupt++
		}
		if f.Arrive != f.Again {
			late++
		}
	}
	require.InDelta(t, 0.1*n, dup, 500)
	require.InDelta(t, 0.2*n, corrupt, 700)
	require.InDelta(t, 0.3*n, late, 800)
}

// Each fault has its own draws: none changes when others are switched on.
func TestFaultsDoNotShiftEachOther(t *testing.T) {
	base := LinkConfig{Loss: Loss{Drop: 0.1, Burst: 3}}
	full := LinkConfig{
		Rate: units.Gbit, Queue: 10_000, Delay: 5, Jitter: 7, ChannelDelay: []units.Duration{1, 2}, Loss: base.Loss,
		Reorder: 0.5, ReorderDelay: 9, Duplicate: 0.5, Corrupt: 0.5,
	}
	only := LinkConfig{Duplicate: 0.5}
	a, b, c := newLink(t, base, 3), newLink(t, full, 3), newLink(t, only, 3)
	dropped := 0
	for i := range 10_000 {
		now := Time(i) * 5_000_000
		x, y, z := carry(a, now, 1000, 0), carry(b, now, 1000, i), carry(c, now, 1000, i)
		if y.Outcome == QueueFull {
			dropped++
			continue
		}
		require.Equal(t, x.Outcome, y.Outcome)
		if y.Outcome == Delivered {
			require.Equal(t, z.Duplicated, y.Duplicated)
		}
	}
	require.NotZero(t, dropped, "the queue overflowed without shifting draws")
}

// Golden values: the same on every architecture and in every version.
func TestGolden(t *testing.T) {
	l := newLink(t, LinkConfig{
		Rate: 3 * units.Gbit, Queue: 8192, MarkAbove: 4096, Delay: 1000, ChannelDelay: []units.Duration{0, 333}, Jitter: 77,
		Loss: Loss{Drop: 0.07, Burst: 5, BurstDrop: 0.8}, Reorder: 0.2, ReorderDelay: 12345, Duplicate: 0.1, Corrupt: 0.03,
	}, 2024)
	var sum uint64
	add := func(v uint64) { sum = Mix(sum ^ v) }
	for i := range 100_000 {
		f := carry(l, Time(i)*1_500_000, units.Bytes(64+i*7919%4096), i%5)
		add(uint64(f.Outcome))
		add(uint64(f.Left))
		if f.Outcome == Delivered {
			add(uint64(f.Arrive))
			for _, b := range []bool{f.Duplicated, f.Corrupted, f.Marked} {
				if b {
					add(1)
				}
			}
		}
	}
	require.Equal(t, uint64(0xee490fd005ba7a71), sum)
}

func TestConfigureKeepsWhatIsUnderWay(t *testing.T) {
	c := LinkConfig{Rate: 8 * units.Gbit}
	l := newLink(t, c, 1)
	carry(l, 0, 1000, 0)
	c.Rate = 16 * units.Gbit
	l.Configure(&c)
	require.Equal(t, Time(1_000_000), l.ports[0].Backlog(0))
	require.Equal(t, Time(1_500_000), carry(l, 0, 1000, 0).Left)
}

func BenchmarkLink(b *testing.B) {
	l := newLink(b, LinkConfig{
		Rate: 400 * units.Gbit, Queue: units.MiB, MarkAbove: 100 * units.KiB, Delay: units.Millisecond,
		Loss: Loss{Drop: 1e-3, Burst: 4}, Reorder: 1e-2, ReorderDelay: units.Millisecond, Duplicate: 1e-3,
	}, 1)
	var now Time
	for range b.N {
		now += 90_000
		carry(l, now, 4096, 0)
	}
}

// What can be cut is, above the threshold or by chance, overtakes what waits, and takes its headers' share of the rate;
// nothing else is.
func TestTrimming(t *testing.T) {
	c := LinkConfig{Rate: 8 * units.Gbit, TrimAbove: 3000, Queue: 4000, Delay: 10 * units.Microsecond} // a byte takes 1 ns
	l := NewLink(&c, 1)
	var fates []Fate
	for range 8 {
		fates = append(fates, l.CarryData(l.Loss(), 0, 1000, 74, 0))
	}
	for i, f := range fates {
		require.Equal(t, Delivered, f.Outcome)
		require.Equal(t, i >= 4, f.Trimmed, "packet %d", i)
		if f.Trimmed {
			require.Equal(t, Serialization(units.Bytes(i-3)*74, c.Rate), f.Left, "in front of what waits, one after the other")
			continue
		}
		require.Equal(t, Serialization(units.Bytes(i+1)*1000, c.Rate), f.Left)
	}
	require.Equal(t, Serialization(4*1000+4*74, c.Rate), l.ports[0].Backlog(0))
	require.Equal(t, QueueFull, l.Carry(l.Loss(), 0, 1000, 0).Outcome, "control is never cut")
	require.False(t, l.CarryData(l.Loss(), 0, 74, 74, 0).Trimmed, "there is nothing to cut")

	c = LinkConfig{Trim: 0.25}
	l = NewLink(&c, 2)
	cut := 0
	for range 10_000 {
		if l.CarryData(l.Loss(), 0, 1000, 74, 0).Trimmed {
			cut++
		}
		require.False(t, l.Carry(l.Loss(), 0, 1000, 0).Trimmed)
	}
	require.InDelta(t, 2500, cut, 150)
	require.Error(t, (&LinkConfig{TrimAbove: 1}).Validate())
	require.Error(t, (&LinkConfig{Trim: 1.5}).Validate())
}
