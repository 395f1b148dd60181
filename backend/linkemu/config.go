// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"math"

	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config describes the link as one side sees it. The zero value changes nothing.
type Config struct {
	// RTT is the round-trip time to add, 0 to 1 hour: half of it to what this
	// end sends.
	RTT units.Duration
	// Rate is the link's rate, of what is on the wire: payload and
	// Caps.HeaderBytes of each packet; 0: no limit.
	Rate units.Rate
	// Queue is how many bytes, headers included, may wait for the link before a packet
	// is dropped. 0: none is dropped, and the sender is held back instead, as
	// by a slow NIC. It needs a Rate.
	Queue units.Bytes
	// MarkAbove marks (ECN) data that finds more than so many of those bytes waiting; 0: none. It needs a Rate, and a
	// device whose packets can carry marks (Caps.ECN), at both ends: such as userroce with Config.ECN. The real device
	// sends what is marked with CE, so that its receiver answers as it would to a switch. Control isn't ECN-capable.
	MarkAbove units.Bytes
	// Drop is the fraction of packets lost, 0 to 1, data and control alike.
	Drop float64
	// Burst is the mean length in packets of the bursts in which they are lost
	// (Gilbert–Elliott); 0 or 1: independently. BurstDrop is the probability
	// of loss within a burst; 0 stands for 1. With a Rate a burst lasts for the
	// time that so many packets of the path's MTU take, whatever packets come.
	Burst, BurstDrop float64
	// Jitter delays each packet by up to that much more, keeping the order of
	// a channel.
	Jitter units.Duration
	// ChannelDelay is the additional one-way delay of each channel, used in
	// rotation: channels become paths of different length.
	ChannelDelay []units.Duration
	// ChannelRate, instead of Rate, gives each channel a rate of its own, in rotation, and a Queue: channels become
	// paths of different width. ChannelDownAt is when a channel goes down, from Wrap on, in rotation; 0: never.
	ChannelRate   []units.Rate
	ChannelDownAt []units.Duration
	// Reorder is the probability, 0 to 1, with which a packet is delayed by up
	// to ReorderDelay more, so that later ones overtake it. ReorderDelay 0
	// stands for RTT/8, or 100 µs if that is more.
	Reorder      float64
	ReorderDelay units.Duration
	// Duplicate is the probability, 0 to 1, with which a packet is sent twice.
	Duplicate float64
	// Seed makes the faults repeatable. Give the two sides different seeds.
	Seed uint64
}

const leastReorderDelay = 100 * units.Microsecond

func (c *Config) link() (*netsim.LinkConfig, error) {
	if c.RTT < 0 || c.RTT > 3600*units.Second {
		return nil, operr.New("wrap", "linkemu", "RTT of %d ns: must be between 0 and 1 hour", int64(c.RTT))
	}
	l := &netsim.LinkConfig{
		Rate:          c.Rate,
		Queue:         c.Queue,
		MarkAbove:     c.MarkAbove,
		Delay:         c.RTT / 2,
		ChannelDelay:  c.ChannelDelay,
		ChannelRate:   c.ChannelRate,
		ChannelDownAt: c.ChannelDownAt,
		Jitter:        c.Jitter,
		Loss:          netsim.Loss{Drop: c.Drop, Burst: c.Burst, BurstDrop: c.BurstDrop},
		Reorder:       c.Reorder,
		ReorderDelay:  c.ReorderDelay,
		Duplicate:     c.Duplicate,
	}
	if l.ReorderDelay == 0 {
		l.ReorderDelay = max(c.RTT/8, leastReorderDelay)
	}
	if err := l.Validate(); err != nil {
		return nil, operr.Wrap("wrap", "linkemu", err)
	}
	return l, nil
}

// Validate says what is wrong with c, if anything, naming the allowed range.
func (c Config) Validate() error {
	_, err := c.link()
	return err
}

// PacketsInFlight is how many packets of mtu bytes of payload one direction of
// the link holds: what the SendDepth of the QPs that send must add up to for the
// rate to be reached. It is 0 without a rate.
func (c Config) PacketsInFlight(mtu units.Bytes) int {
	rate := c.TotalRate()
	if rate <= 0 || mtu <= 0 {
		return 0
	}
	delay := c.RTT/2 + c.Jitter + coalescing(c.RTT/2)
	bytes := rate.Bytes(delay)
	return int(bytes/mtu + min(1, bytes%mtu))
}

// connectTimeout is package sdr's own, at least.
const connectTimeout = 5 * units.Second

// ConnectTimeout is what the ConnectTimeout of QPs that send over the link should be: a few packets may get lost on it, and who allows the peer to
// be silent for longer has a longer path behind it.
func (c Config) ConnectTimeout(silence units.Duration) units.Duration {
	return max(connectTimeout, silence/6) + 4*(c.RTT+2*c.Jitter)
}

// TotalRate is the rate of the link, of all channels together where they have rates of their own; 0: no limit.
func (c Config) TotalRate() units.Rate {
	if len(c.ChannelRate) == 0 {
		return c.Rate
	}
	var sum units.Rate
	for _, r := range c.ChannelRate {
		if r == 0 {
			return 0
		}
		sum += min(r, math.MaxInt64-sum)
	}
	return sum
}

// How long a packet that is due may wait for others to fall due too, where at
// least busy packets are in flight on a CQ. A packet that is alone is not kept
// waiting, so that round-trip times are measured as asked.
const (
	leastCoalescing = 50 * units.Microsecond
	mostCoalescing  = 250 * units.Microsecond
	busy            = 8
)

func coalescing(delay units.Duration) units.Duration {
	return min(max(delay/32, leastCoalescing), mostCoalescing)
}
