// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

const autoMTU = 1500

// A lane hands a controller packets' fates, some hundreds a millisecond.
type lane struct {
	c   Controller
	now units.Instant
	ack Ack
}

// pass lets ms milliseconds pass, in each of which of 400 packets so many get lost.
func (l *lane) pass(ms, lost int, rtt units.Duration) {
	const packets = 400
	for range ms {
		l.now = l.now.Add(units.Millisecond)
		l.c.OnSent(l.now, packets*autoMTU, packets*autoMTU)
		if lost > 0 {
			l.c.OnLoss(l.now, Loss{Bytes: units.Bytes(lost) * autoMTU})
		}
		l.ack = Ack{RTT: rtt, Smoothed: rtt, Least: rtt, Acked: units.Bytes(packets-lost) * autoMTU}
		l.c.OnAck(l.now, &l.ack)
	}
}

func (l *lane) limited() bool {
	rate, _ := l.c.Limits(l.now)
	return rate != 0
}

// Below a millisecond, and at a known rate, nothing limits until a sign of a full queue; above, bbr does.
func TestAutoWaitsForASign(t *testing.T) {
	const short, long = 200 * units.Microsecond, 25 * units.Millisecond
	unknown, known := Path{MTU: autoMTU}, Path{MTU: autoMTU, LineRate: 5 * units.Gbit}
	for name, x := range map[string]struct {
		path    Path
		rtt     units.Duration
		sign    func(*lane)
		limited bool
	}{
		"short":                         {unknown, short, func(l *lane) { l.pass(200, 0, short) }, false},
		"long":                          {unknown, long, func(l *lane) { l.pass(200, 0, long) }, true},
		"told":                          {known, long, func(l *lane) { l.pass(200, 0, long) }, false},
		"one late sample":               {unknown, short, func(l *lane) { l.pass(1, 0, long); l.pass(1, 0, short) }, false},
		"short, a packet in 400":        {unknown, short, func(l *lane) { l.pass(200, 1, short) }, false},
		"short, a packet in 20":         {unknown, short, func(l *lane) { l.pass(50, 20, short) }, true},
		"short, for 10 ms":              {unknown, short, func(l *lane) { l.pass(10, 20, short); l.pass(100, 0, short) }, false},
		"told, a packet in 20":          {known, short, func(l *lane) { l.pass(2000, 20, short) }, false},
		"told, a quarter":               {known, short, func(l *lane) { l.pass(100, 100, short) }, true},
		"told, a quarter, for 15 ms":    {known, short, func(l *lane) { l.pass(15, 100, short); l.pass(100, 0, short) }, false},
		"told, a quarter, for a second": {known, long, func(l *lane) { l.pass(1000, 100, long) }, true},
		"a notification":                {unknown, short, func(l *lane) { l.c.OnCNP(l.now) }, true},
		"told, a notification":          {known, short, func(l *lane) { l.c.OnCNP(l.now) }, true},
		"a trimmed packet":              {unknown, short, func(l *lane) { l.c.OnLoss(l.now, Loss{autoMTU, LossTrim}) }, true},
		"a mark":                        {unknown, short, func(l *lane) { l.c.OnAck(l.now, &Ack{Acked: autoMTU, ECN: true}) }, true},
		"a timeout":                     {unknown, short, func(l *lane) { l.c.OnLoss(l.now, Loss{1 << 20, LossTimeout}); l.pass(20, 0, short) }, false},
		"only guessed": {unknown, short, func(l *lane) {
			for range 100 {
				l.c.OnLoss(l.now, Loss{1 << 20, LossGuessed})
				l.pass(1, 0, short)
			}
		}, false},
		"nobody will ever know":           {unknown, short, func(l *lane) { l.c.OnLoss(l.now, Loss{1 << 20, LossUnacknowledged}); l.pass(20, 0, short) }, false},
		"long, then short after all":      {unknown, long, func(l *lane) { l.pass(20, 100, long); l.pass(20, 0, short) }, false},
		"another's queue was full, short": {Path{MTU: autoMTU, Found: Model{Rate: units.Gbit, MinRTT: short}}, short, func(l *lane) { l.pass(20, 0, short) }, true},
	} {
		l := &lane{c: Auto()(x.path), now: units.Instant(units.Second)}
		l.pass(2, 0, x.rtt)
		x.sign(l)
		require.Equal(t, x.limited, l.limited(), name)
	}
}

// The first round trips of a short path are a window that doubles.
func TestAutoStartsSmall(t *testing.T) {
	l := &lane{c: Auto()(Path{MTU: autoMTU}), now: 1}
	_, window := l.c.Limits(l.now)
	require.Equal(t, units.Bytes(10*autoMTU), window)
	for range 10 {
		l.now = l.now.Add(100 * units.Microsecond)
		before := window
		l.c.OnSent(l.now, before, before)
		l.c.OnAck(l.now, &Ack{RTT: 100 * units.Microsecond, Acked: before})
		_, window = l.c.Limits(l.now)
		require.Equal(t, 2*before, window)
	}
	// A sender with less to send says nothing about more, nor does one whose packets get lost.
	l.pass(10, 0, 100*units.Microsecond)
	_, unchanged := l.c.Limits(l.now)
	require.Equal(t, window, unchanged)
	l.c.OnLoss(l.now, Loss{Bytes: autoMTU})
	l.c.OnAck(l.now, &Ack{RTT: 100 * units.Microsecond, Acked: window})
	_, unchanged = l.c.Limits(l.now)
	require.Equal(t, window, unchanged)
}

// A start on a short path of unknown rate sends 16 KiB before something is heard, however many may begin with it, and doesn't grow by what is
// answered late. Where nothing is known of the round trip, or the rate is, it begins with 32 packets.
func TestBBRStartsSlowlyOnShortPaths(t *testing.T) {
	const mtu, rtt = 4 * units.KiB, 2 * units.Millisecond
	begin := func(p Path, smoothed units.Duration) (Controller, units.Bytes) {
		c := BBR()(p)
		c.OnAck(1, &Ack{Smoothed: smoothed})
		_, window := c.Limits(1)
		return c, window
	}
	for _, x := range []struct {
		path Path
		rtt  units.Duration
		want units.Bytes
	}{
		{Path{MTU: mtu}, rtt, 16 * units.KiB}, {Path{MTU: 1500}, rtt, 15000}, {Path{MTU: mtu}, 0, 32 * mtu}, {Path{MTU: mtu}, startSpan, 32 * mtu},
		{Path{MTU: mtu, LineRate: units.Gbit}, rtt, 32 * mtu},
	} {
		_, window := begin(x.path, x.rtt)
		require.Equal(t, x.want, window, "%+v, %v", x.path, x.rtt)
	}
	c, _ := begin(Path{MTU: mtu}, rtt)
	now := units.Instant(0)
	for i := range units.Bytes(4) {
		now = now.Add(units.Millisecond / 2)
		c.OnSent(now, mtu, (i+1)*mtu)
	}
	for _, x := range []struct {
		after, rtt units.Duration
		want       units.Bytes
	}{{3 * rtt, 3 * rtt, 4 * mtu}, {1, 3 * rtt, 4 * mtu}, {1, rtt, 5 * mtu}} {
		now = now.Add(x.after)
		c.OnAck(now, &Ack{RTT: x.rtt, Acked: mtu, Inflight: 3 * mtu})
		_, window := c.Limits(now)
		require.Equal(t, x.want, window)
	}
}
