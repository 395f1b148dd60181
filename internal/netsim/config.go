// SPDX-License-Identifier: Apache-2.0

package netsim

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/units"
)

// LinkConfig describes one direction of a link. The zero value is perfect: no
// delay, no limit, no fault.
type LinkConfig struct {
	// Rate is how fast the link takes packets, counted in the bytes that the
	// caller says a packet has; 0: no limit.
	Rate units.Rate
	// ChannelRate, instead of Rate, gives each channel a rate and a queue of its own, by channel modulo its length; 0:
	// no limit.
	ChannelRate []units.Rate
	// ChannelDownAt is when each channel goes down, by channel modulo its length, as an instant of the clock that Carry is given;
	// what it is given from then on is lost. 0: never.
	ChannelDownAt []units.Duration
	// Queue is how many bytes may wait for the link, that which is being sent
	// included, when a packet arrives and is still taken; 0: no limit. An
	// idle link takes a packet of any size.
	Queue units.Bytes
	// MarkAbove marks a packet as having met congestion (ECN) when it finds
	// more than so many bytes waiting; 0: never.
	MarkAbove units.Bytes
	// TrimAbove cuts a packet that can be cut to its headers when it finds more than so many bytes waiting; 0: never. The
	// headers overtake data that wait, and no Queue is too full for them. Trim is the probability with which that happens to
	// any packet.
	TrimAbove units.Bytes
	Trim      float64
	// Delay is the time from leaving the queue to arrival.
	Delay units.Duration
	// ChannelDelay is added to Delay, by channel modulo its length: channels
	// are separate paths. Nil: one delay for all.
	ChannelDelay []units.Duration
	// Jitter adds up to that much to each packet, without changing the order
	// of a channel's packets.
	Jitter units.Duration
	// Loss is how packets are lost.
	Loss Loss
	// Reorder is the probability with which a packet takes up to ReorderDelay
	// more than the others, so that later ones overtake it.
	Reorder      float64
	ReorderDelay units.Duration
	// Duplicate is the probability with which a packet arrives twice, Corrupt
	// that with which it arrives damaged.
	Duplicate, Corrupt float64
}

// maxDelay bounds every time of a link: far below the range of Time.
const maxDelay = 3600 * units.Second

// Validate says what is wrong with c, if anything, naming the allowed range.
func (c *LinkConfig) Validate() error {
	if c.Rate < 0 {
		return fmt.Errorf("link rate %d bit/s: must not be negative (0: no limit)", int64(c.Rate))
	}
	if c.Queue < 0 || c.MarkAbove < 0 || c.TrimAbove < 0 {
		return fmt.Errorf("link queue of %d bytes, marking above %d, trimming above %d: must not be negative (0: no limit)", int64(c.Queue), int64(c.MarkAbove), int64(c.TrimAbove))
	}
	for _, r := range c.ChannelRate {
		if r < 0 || r > 0 && (c.Rate != 0 || c.TrimAbove != 0) {
			return fmt.Errorf("link rate %d bit/s of a channel: must not be negative, and the link can't have one beside it (%v), or trim", int64(r), c.Rate)
		}
	}
	if most := max(c.Queue, c.MarkAbove, c.TrimAbove); c.Rate == 0 && len(c.ChannelRate) == 0 && most != 0 {
		return fmt.Errorf("link queue of %v without a rate: set a rate, since nothing queues on an unlimited link", most)
	}
	if err := c.validateTimes(); err != nil {
		return err
	}
	if err := c.Loss.Validate(); err != nil {
		return err
	}
	for _, p := range []struct {
		name string
		v    float64
	}{{"reorder", c.Reorder}, {"duplicate", c.Duplicate}, {"corrupt", c.Corrupt}, {"trim", c.Trim}} {
		if !(p.v >= 0 && p.v <= 1) {
			return fmt.Errorf("%s probability %v: must be between 0 and 1", p.name, p.v)
		}
	}
	if c.Reorder > 0 && c.ReorderDelay == 0 {
		return fmt.Errorf("reorder probability %v without a reorder delay: set how late such a packet may be", c.Reorder)
	}
	return nil
}

func (c *LinkConfig) validateTimes() error {
	check := func(name string, d units.Duration) error {
		if d < 0 || d > maxDelay {
			return fmt.Errorf("%s of %d ns: must be between 0 and %v", name, int64(d), units.FormatDuration(maxDelay))
		}
		return nil
	}
	if err := check("delay", c.Delay); err != nil {
		return err
	}
	if err := check("jitter", c.Jitter); err != nil {
		return err
	}
	if err := check("reorder delay", c.ReorderDelay); err != nil {
		return err
	}
	for _, d := range c.ChannelDelay {
		if err := check("channel delay", d); err != nil {
			return err
		}
	}
	for _, d := range c.ChannelDownAt {
		if err := check("channel end", d); err != nil {
			return err
		}
	}
	return nil
}
