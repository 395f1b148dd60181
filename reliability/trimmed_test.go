// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine moves everything, in virtual time: the race detector has nothing to find.

package reliability_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// trimAware are the schemes that repeat what was trimmed.
func trimAware(t testing.TB) map[string]func() scheme.Scheme {
	return map[string]func() scheme.Scheme{
		"sr": newSR(t, sr.RTO), "sr-nack": newSR(t, sr.NACK), "adaptive": func() scheme.Scheme {
			s, err := adaptive.New(adaptive.Config{})
			require.NoError(t, err)
			return s
		},
	}
}

// With 1 % of the packets trimmed at random each scheme repeats exactly those, and no timer expires: on a short round trip and
// a long one, paced and, where that makes sense, not.
func TestTrimmedAreRepeatedOnce(t *testing.T) {
	for name, newScheme := range trimAware(t) {
		for _, c := range []struct {
			delay       units.Duration
			rate        units.Rate
			transfers   int
			generations int
		}{
			{50 * units.Microsecond, 0, 20, 4},
			{50 * units.Microsecond, 900 * units.Mbit, 4, 1},
			{50 * units.Microsecond, 900 * units.Mbit, 4, 2},
			{5 * ms, 900 * units.Mbit, 12, 4},
		} {
			t.Run(fmt.Sprintf("%s/%v/%v/%d", name, units.FormatDuration(2*c.delay), c.rate, c.generations), func(t *testing.T) {
				p := newPair(t, setup{
					net:    sim.Config{Rate: units.Gbit, HeaderBytes: 64, Seed: 7, Link: sim.Link{Delay: c.delay, Trim: 0.01}},
					qp:     sdr.QPConfig{MTU: 1024, Channels: 4, Generations: c.generations},
					conn:   reliability.Config{Rate: c.rate, Unit: 1024},
					scheme: newScheme,
				})
				for range c.transfers {
					p.one(4*units.MiB, 4*units.MiB)
				}
				s, seen := p.conn[0].Stats(), p.net.B().Stats().Trim
				require.NotZero(t, seen.Seen)
				t.Logf("%d trimmed, %d back, %d repeats, %d spurious, %d timers, %d parity units, %d recovered", seen.Seen, p.net.A().Stats().Trim.Reported,
					s.Units.Retransmitted, s.Units.Spurious, s.Units.Timeouts, s.Units.Parity, p.conn[1].Stats().Units.Recovered)
				require.Zero(t, s.Units.Timeouts)
				require.Equal(t, seen.Seen, s.QP.Trimmed)
				if name == "adaptive" {
					// One repeat in a hundred is trimmed, too. When parity is in flight that then recovers the unit, the next one counts as one for nothing.
					require.LessOrEqual(t, s.Units.Spurious, s.Units.Retransmitted/100)
				} else {
					require.Zero(t, s.Units.Spurious)
					require.Equal(t, seen.Seen, s.Units.Retransmitted, "each trimmed packet is one repeat")
				}
			})
		}
	}
}

// A queue that trims what doesn't fit: all arrives, each trimmed packet is repeated once, and the rate comes down to what
// the queue carries.
func TestTrimmingQueue(t *testing.T) {
	for name, newScheme := range trimAware(t) {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, setup{
				net: sim.Config{Rate: units.Gbit, HeaderBytes: 64, Seed: 5, Link: sim.Link{
					Delay: 500 * units.Microsecond, Rate: 300 * units.Mbit, TrimAbove: 64 * units.KiB,
				}},
				qp:     sdr.QPConfig{MTU: 1024, Channels: 4},
				conn:   reliability.Config{Unit: 1024},
				scheme: newScheme,
			})
			const n = 8 * units.MiB
			p.one(n, n)
			before, begun := p.conn[0].Stats(), p.net.Now()
			p.one(n, n)
			took := p.net.Now().Sub(begun)
			s, seen := p.conn[0].Stats(), p.net.B().Stats().Trim
			t.Logf("%d trimmed of %d, %d repeats, %d timers, second transfer at %v, %d trimmed in it", seen.Seen, s.QP.PacketsPosted,
				s.Units.Retransmitted, s.Units.Timeouts, units.RateOf(n, took), s.QP.Trimmed-before.QP.Trimmed)
			require.NotZero(t, seen.Seen)
			require.Zero(t, s.Units.Spurious)
			require.Zero(t, s.Units.Timeouts)
			require.Greater(t, units.RateOf(n, took), 240*units.Mbit)
			require.Less(t, float64(s.QP.Trimmed-before.QP.Trimmed), 0.01*float64(n/1024))
		})
	}
}

// A gossip is a device that repeats each report of a trimmed packet at once, and reports packets once more that it has sent, or if
// it is honest only those that were trimmed, whatever has become of them.
type gossip struct {
	backend.Device
	rnd    *rand.Rand
	honest bool
	pause  units.Duration // from three such reports to the next
	next   units.Instant
	writes []gossiped
	told   uint64
}

type gossiped struct {
	cookie uint32
	write  backend.Write
}

type gossipCQ struct {
	backend.CQ
	d *gossip
}

type gossipQP struct {
	backend.QP
	d      *gossip
	cookie uint32
}

func (d *gossip) NewQP(c backend.QPConfig) (backend.QP, error) {
	q, err := d.Device.NewQP(c)
	return &gossipQP{q, d, c.Cookie}, err
}

func (q *gossipQP) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	n, err := q.QP.PostWrites(now, w)
	if !q.d.honest {
		for _, x := range w[:n] {
			q.d.keep(q.cookie, x)
		}
	}
	return n, err
}

func (d *gossip) keep(cookie uint32, w backend.Write) {
	d.writes = append(d.writes, gossiped{cookie, w})
	d.writes = d.writes[max(0, len(d.writes)-2000):]
}

func (c *gossipCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	n, err := c.CQ.Poll(now, dst[:len(dst)/2])
	for _, x := range dst[:n] {
		if x.Kind != backend.KindTrimmed {
			continue
		}
		dst[n] = x
		n++
		if c.d.honest {
			c.d.keep(x.Cookie, backend.Write{VA: x.WRID, Imm: x.Imm, Length: x.Len})
		}
	}
	if now < c.d.next || len(c.d.writes) == 0 {
		return n, err
	}
	c.d.next = now.Add(c.d.pause)
	for k := 0; k < 3 && n < len(dst); k++ {
		x := c.d.writes[c.d.rnd.IntN(len(c.d.writes))]
		dst[n] = backend.Completion{WRID: x.write.VA, Cookie: x.cookie, Imm: x.write.Imm, Len: x.write.Length, Kind: backend.KindTrimmed}
		if !c.d.honest {
			c.d.distort(&dst[n])
		}
		c.d.told++
		n++
	}
	return n, err
}

func (d *gossip) distort(c *backend.Completion) {
	switch d.rnd.IntN(4) {
	case 0:
		c.Imm = d.rnd.Uint32()
	case 1:
		c.WRID += uint64(d.rnd.IntN(1 << 20))
	case 2:
		c.Cookie = d.rnd.Uint32N(40)
	}
}

func (d *gossip) wrap(side int, dev backend.Device) backend.Device {
	if side == 1 {
		return dev
	}
	d.Device = cqtest.Wrap(dev, func(q backend.CQ) backend.CQ { return &gossipCQ{q, d} })
	return d
}

// False and repeated reports of trimmed packets break nothing: what was in place stays so, and all transfers arrive.
func TestForgedTrims(t *testing.T) {
	for name, newScheme := range trimAware(t) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				forgeTrims(t, newScheme, seed)
			})
		}
	}
}

func forgeTrims(t *testing.T, newScheme func() scheme.Scheme, seed uint64) {
	liar := gossip{rnd: rand.New(rand.NewPCG(seed, 1)), pause: 500 * units.Microsecond}
	p := newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, HeaderBytes: 64, Seed: seed, Link: sim.Link{
			Delay: ms, Trim: 0.01, Loss: sim.Loss{Drop: 0.002}, Duplicate: 0.01,
		}},
		qp:     smallQP,
		conn:   reliability.Config{Rate: units.Rate(seed%2) * 900 * units.Mbit},
		scheme: newScheme,
		wrap:   liar.wrap,
	})
	for range 3 {
		p.one(units.MiB+17, 2*units.MiB)
	}
	s, seen := p.conn[0].Stats(), p.net.B().Stats().Trim.Seen
	t.Logf("%v: %d reports beside %d true ones, %d taken, %+v", p.net.Now(), liar.told, seen, s.QP.Trimmed, s.Units)
	require.Greater(t, s.QP.Trimmed, 2*seen, "true reports come twice, false ones besides")
}

// True reports that come again and again cost neither rate nor repeats: the transfer takes as long as with each of them twice. There is
// one channel, so that nothing but its number tells a repeat from what was trimmed.
func TestRepeatedTrimsCostNothing(t *testing.T) {
	qp := smallQP
	qp.Channels = 1
	for name, newScheme := range trimAware(t) {
		t.Run(name, func(t *testing.T) {
			took := func(pause units.Duration) units.Duration {
				echo := gossip{rnd: rand.New(rand.NewPCG(1, 1)), honest: true, pause: pause}
				p := newPair(t, setup{
					net:    sim.Config{Rate: units.Gbit, HeaderBytes: 64, Seed: 3, Link: sim.Link{Delay: ms, Trim: 0.01}},
					qp:     qp,
					scheme: newScheme,
					wrap:   echo.wrap,
				})
				begun := p.net.Now()
				p.one(4*units.MiB, 4*units.MiB)
				s := p.conn[0].Stats().Units
				t.Logf("%d reports again, %+v", echo.told, s)
				require.NotZero(t, s.Retransmitted)
				require.Zero(t, s.Spurious)
				return p.net.Now().Sub(begun)
			}
			once, again := took(units.Second), took(50*units.Microsecond)
			t.Logf("%v and %v", once, again)
			require.Less(t, again, once+once/10)
		})
	}
}
