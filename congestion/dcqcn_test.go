// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

const us = units.Instant(units.Microsecond)

func mustDCQCN(t testing.TB, c DCQCNConfig, line units.Rate) *dcqcn {
	t.Helper()
	f, err := DCQCN(c)
	require.NoError(t, err)
	return f(Path{LineRate: line, MTU: 1048}).(*dcqcn)
}

var presets = []struct {
	name string
	c    DCQCNConfig
}{{"sigcomm15", DCQCNDefaults()}, {"hpcc", DCQCNOfHPCC()}}

// The first notifications by hand, with the constants of HPCC: α is 1, so the first decrease halves;
// α has 4 ticks to each decrease, and a tick after a notification adds g.
func TestDCQCNFirstDecreases(t *testing.T) {
	d := mustDCQCN(t, DCQCNOfHPCC(), 100*units.Gbit)
	d.OnCNP(10 * us)
	require.Equal(t, 14*us+1, d.Next(), "on the decrease timer's grid, behind the tick of α")
	rate, window := d.Limits(14 * us)
	require.Equal(t, 100*units.Gbit, rate)
	require.Zero(t, window)
	rate, _ = d.Limits(14*us + 1)
	alpha := 1.0
	for range 4 {
		alpha *= 255. / 256
	}
	require.InDelta(t, 100e9*(1-alpha/2), float64(rate), 2)
	require.Equal(t, 914*us+1, d.Next(), "then the first rise")

	// Two notifications in one interval are one decrease, and the target stays: no rise was between.
	d.OnCNP(15 * us)
	d.OnCNP(17 * us)
	require.Equal(t, 18*us+1, d.Next())
	for range 4 {
		alpha *= 255. / 256
	}
	second, _ := d.Limits(18*us + 1)
	require.Less(t, float64(second), float64(rate)*(1-alpha/2)+float64(rate)*0.01)
	require.Equal(t, 100*units.Gbit, d.target)

	// Fast recovery is one step of halving the distance, then come AI and HAI.
	before := d.rate
	d.Limits(918*us + 1)
	require.Equal(t, (before+100*units.Gbit+1)/2, d.rate)
	d.Limits(918*us + 1 + 900*us)
	require.Equal(t, 100*units.Gbit, d.target, "an additive step doesn't pass the line rate")
}

// Random notifications and sends against timers that fire one by one.
func TestDCQCNAgainstTimers(t *testing.T) {
	for _, p := range presets {
		t.Run(p.name, func(t *testing.T) {
			cuts, rises := 0, 0
			for seed := range uint64(40) {
				draw := rand.New(rand.NewPCG(seed, 1))
				line := units.Rate(1+draw.IntN(400)) * units.Gbit
				d, r := mustDCQCN(t, p.c, line), newReference(p.c, line)
				now := units.Instant(draw.IntN(1e6))
				for range 2000 {
					now += units.Instant(draw.ExpFloat64() * float64(p.c.RiseInterval) / float64(1+draw.IntN(200)))
					if draw.IntN(3+60*int(seed%2)) == 0 {
						d.OnCNP(now)
						r.cnp(now)
					} else {
						n := units.Bytes(draw.IntN(int(4 * units.MB)))
						d.OnSent(now, n, 0)
						r.sent(now, n)
					}
					rate, _ := d.Limits(now)
					require.InEpsilon(t, r.rate, float64(rate), 1e-5, "seed %d at %d ns", seed, now)
					require.InEpsilon(t, r.target, float64(d.target), 1e-5, "seed %d at %d ns", seed, now)
				}
				cuts, rises = cuts+r.cuts, rises+r.rises
			}
			require.Greater(t, cuts, 300)
			require.Greater(t, rises, 300)
		})
	}
}

// A driver that asks at each Next, one that asks all the time and one that asks never until the next
// notification have the same rates, bit for bit.
func TestDCQCNLateCalls(t *testing.T) {
	for _, p := range presets {
		t.Run(p.name, func(t *testing.T) {
			for seed := range uint64(20) {
				draw := rand.New(rand.NewPCG(seed, 2))
				late, punctual, busy := mustDCQCN(t, p.c, 100*units.Gbit), mustDCQCN(t, p.c, 100*units.Gbit), mustDCQCN(t, p.c, 100*units.Gbit)
				now, changes := units.Instant(0), 0
				for range 300 {
					until := now + units.Instant(draw.ExpFloat64()*3e6)
					for punctual.Next() <= until {
						at := punctual.Next()
						before, _ := punctual.Limits(at - 1)
						after, _ := punctual.Limits(at)
						require.Greater(t, punctual.Next(), at)
						if before != after {
							changes++
						}
					}
					for range 50 {
						now = min(until, now+units.Instant(draw.IntN(100_000)))
						busy.OnAck(now, &Ack{Acked: 1000, ECN: true, RTT: 1})
						busy.Limits(now)
					}
					now = until
					for _, d := range []*dcqcn{late, punctual, busy} {
						d.OnCNP(now)
						d.OnSent(now, 3*units.MB, 0)
					}
					a, _ := late.Limits(now)
					b, _ := punctual.Limits(now)
					c, _ := busy.Limits(now)
					require.Equal(t, a, b, "seed %d", seed)
					require.Equal(t, a, c, "seed %d", seed)
				}
				require.Greater(t, changes, 100)
			}
		})
	}
}

// Without notifications nothing changes and nobody need call; after one the rate recovers to the line
// rate wholly, whenever it is asked.
func TestDCQCNRecovers(t *testing.T) {
	for _, p := range presets {
		d := mustDCQCN(t, p.c, 100*units.Gbit)
		rate, _ := d.Limits(units.Instant(units.Minute))
		require.Equal(t, 100*units.Gbit, rate)
		require.Equal(t, units.Never, d.Next())
		now := units.Instant(units.Minute)
		for range 200 {
			d.OnCNP(now)
			now += 60 * us
		}
		rate, _ = d.Limits(now)
		require.Less(t, rate, 10*units.Gbit)
		rate, _ = d.Limits(now.Add(units.Minute))
		require.Equal(t, 100*units.Gbit, rate)
		require.Equal(t, units.Never, d.Next())
	}
}

// The end of time is an instant like others: a call there returns, with what all the time before has brought.
func TestDCQCNAtTheEndOfTime(t *testing.T) {
	f, err := DCQCN(DCQCNDefaults())
	require.NoError(t, err)
	for _, end := range []units.Instant{units.Never - 1, units.Never} {
		c := f(Path{LineRate: 25 * units.Gbit})
		c.OnCNP(1)
		c.Limits(units.Instant(units.Millisecond))
		c.OnCNP(units.Instant(2 * units.Millisecond))
		rate, _ := c.Limits(end)
		require.Equal(t, 25*units.Gbit, rate)
		c.OnCNP(end)
		require.GreaterOrEqual(t, c.Next(), end)
	}
}

// However many notifications are forged, the rate falls once an interval by half at most, stays at the
// least rate, and comes back.
func TestDCQCNForgedNotifications(t *testing.T) {
	for _, p := range presets {
		d := mustDCQCN(t, p.c, 25*units.Gbit)
		last, _ := d.Limits(0)
		for now := units.Instant(0); now < 20*1000*us; now += 100 {
			d.OnCNP(now)
			if now%units.Instant(p.c.DecreaseInterval) == 0 {
				rate, _ := d.Limits(now)
				require.GreaterOrEqual(t, rate, last/2)
				require.GreaterOrEqual(t, rate, p.c.MinRate)
				last = rate
			}
		}
		require.Equal(t, p.c.MinRate, last)
		rate, _ := d.Limits(units.Instant(5 * units.Minute))
		require.Equal(t, 25*units.Gbit, rate)
	}
	slow := mustDCQCN(t, DCQCNOfHPCC(), 10*units.Mbit)
	slow.OnCNP(0)
	rate, _ := slow.Limits(5 * us)
	require.Equal(t, 10*units.Mbit, rate, "the least rate is never above the line rate")
}

// The bits of a long run, so that another architecture or a careless change shows.
func TestDCQCNBits(t *testing.T) {
	for i, want := range []uint64{0xe74514184492a879, 0x2c188183aa6a09a3} {
		d := mustDCQCN(t, presets[i].c, 100*units.Gbit)
		draw, sum, now := rand.New(rand.NewPCG(7, 3)), fnv.New64a(), units.Instant(0)
		for range 20_000 {
			now += units.Instant(draw.IntN(100_000))
			switch draw.IntN(4) {
			case 0:
				d.OnCNP(now)
			case 1:
				d.OnSent(now, units.Bytes(draw.IntN(1e7)), 0)
			}
			rate, _ := d.Limits(now)
			for shift := 0; shift < 64; shift += 8 {
				_, _ = sum.Write([]byte{byte(rate >> shift)})
			}
		}
		require.Equal(t, want, sum.Sum64(), "%s: %#x", presets[i].name, sum.Sum64())
	}
}

func TestDCQCNRefuses(t *testing.T) {
	for name, change := range map[string]func(*DCQCNConfig){
		"g": func(c *DCQCNConfig) { c.G = 1 }, "α": func(c *DCQCNConfig) { c.AlphaInterval = 0 },
		"decrease": func(c *DCQCNConfig) { c.DecreaseInterval = -1 }, "rise": func(c *DCQCNConfig) { c.RiseInterval = 0 },
		"byte counter is 1099511627777": func(c *DCQCNConfig) { c.RiseBytes = units.TiB + 1 }, "fast": func(c *DCQCNConfig) { c.FastSteps = 1e6 },
		"increases": func(c *DCQCNConfig) { c.HAI = 1 }, "least": func(c *DCQCNConfig) { c.MinRate = 0 },
		"CNP": func(c *DCQCNConfig) { c.CNPInterval = -1 },
	} {
		c := DCQCNOfHPCC()
		change(&c)
		_, err := DCQCN(c)
		require.ErrorContains(t, err, name)
	}
}

// A line that small steps would take too long to climb counts as one of maxSteps of them.
func TestDCQCNBoundsSteps(t *testing.T) {
	c := DCQCNDefaults()
	c.AI, c.HAI = minStep, units.Gbit
	make, err := DCQCN(c)
	require.NoError(t, err)
	rate, _ := make(Path{LineRate: maxLineRate}).Limits(0)
	require.Equal(t, units.Tbit, rate)
	rate, _ = make(Path{LineRate: 400 * units.Gbit}).Limits(0)
	require.Equal(t, 400*units.Gbit, rate)
	c.AI, c.HAI = units.Tbit, units.Tbit // of which maxSteps are more than a Rate holds
	make, err = DCQCN(c)
	require.NoError(t, err)
	rate, _ = make(Path{LineRate: 400 * units.Gbit}).Limits(0)
	require.Equal(t, 400*units.Gbit, rate)
	c.AI = minStep - 1
	_, err = DCQCN(c)
	require.ErrorContains(t, err, "increases of 99999 and 1000000000000 bit/s: each must be at least 100 kbit/s")
}

// Senders through a queue that marks as RED does share it: their rates are the fixed point of the
// paper's section 5, line rate over number of senders, within 5 %, however late one starts.
func TestDCQCNConverges(t *testing.T) {
	for _, p := range presets {
		for _, n := range []int{2, 10} {
			l := loop{
				rate: 40 * units.Gbit, rtt: 8 * units.Microsecond, mtu: 1000,
				min: 40 * units.KB, max: 1000 * units.KB, most: 1, cnp: p.c.CNPInterval,
			}
			end := 600_000 * us
			if p.name == "hpcc" { // rises seldom, decreases every 4 µs
				end = 1_000_000 * us
				l.min, l.max, l.most = 400*units.KB, 1600*units.KB, 0.2
			}
			for i := range n {
				l.add(mustDCQCN(t, p.c, 40*units.Gbit), units.Instant(i)*100*us)
			}
			shares := l.run(100_000*us, end)
			t.Logf("%s, %d: %.3g, queue %.0f", p.name, n, shares, l.queued/float64(l.arrived))
			assert.Greater(t, jain(shares), 0.95)
			for _, s := range shares {
				assert.InEpsilon(t, 40e9/float64(n), s, 0.05, "%s, %d senders: %.3g", p.name, n, shares)
			}
		}
	}
}

// Anything may be called with anything: rates stay within their bounds and Next lies ahead.
func FuzzDCQCN(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 250, 251, 252, 253}, false)
	f.Add([]byte("\x40\xff\xff\xff\xff\xff\xff\xff\x00\x80\x00\x00\x00\x00\x00\x00"), true)
	f.Fuzz(func(t *testing.T, in []byte, hpcc bool) {
		c := DCQCNDefaults()
		if hpcc {
			c = DCQCNOfHPCC()
		}
		d := mustDCQCN(t, c, 100*units.Gbit)
		hostile(in, d, func(now units.Instant) {
			rate, window := d.Limits(now)
			require.True(t, rate >= c.MinRate && rate <= 100*units.Gbit && window == 0, "%d, %d", rate, window)
			require.True(t, d.Next() == units.Never || d.Next() > d.now, "next %d at %d", d.Next(), d.now)
		})
	})
}

// hostile makes a call from each 9 bytes of in: a kind, and a number used as instant, size or time.
func hostile(in []byte, c Controller, check func(now units.Instant)) {
	var now units.Instant
	for ; len(in) >= 9; in = in[9:] {
		var v int64
		for _, b := range in[1:9] {
			v = v<<8 | int64(b)
		}
		n := units.Bytes(v)
		switch in[0] % 6 {
		case 0:
			now = units.Instant(v) // any instant, also an earlier one
		case 1:
			now = now.Add(units.Duration(v & 0xffffff))
		case 2:
			c.OnSent(now, n, n)
		case 3:
			c.OnAck(now, &Ack{RTT: units.Duration(v), Acked: n >> (in[0] / 6), Inflight: -n, ECN: v&1 != 0})
		case 4:
			c.OnCNP(now)
		case 5:
			c.OnLoss(now, Loss{Bytes: n, Kind: LossKind(in[0] / 6)})
		}
		check(now)
	}
}

func BenchmarkDCQCN(b *testing.B) {
	d := mustDCQCN(b, DCQCNOfHPCC(), 100*units.Gbit)
	b.ReportAllocs()
	now := units.Instant(0)
	for i := range b.N {
		now += 84
		d.OnSent(now, 1048, 1048)
		if i%60 == 0 {
			d.OnCNP(now)
		}
		d.Limits(now)
	}
}
