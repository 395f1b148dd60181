// SPDX-License-Identifier: Apache-2.0

package uet

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/congestion/spray"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config is what both ends of all flows have in common.
type Config struct {
	// Congestion makes the controller of each flow; nil: congestion.NSCC with its defaults and BaseRTT.
	Congestion congestion.Factory
	// Paths is how many there are, a power of two; 0: 128.
	Paths int
	// Oblivious takes all paths in turn.
	Oblivious bool
	// BaseRTT is that of the network without queues; 0: that of the flow's path.
	BaseRTT units.Duration
	// AckBytes is after how much payload an acknowledgement is sent; 0: 16 KiB.
	AckBytes units.Bytes
	// RTO is how long a packet may be under way before it is taken for lost; 0: 65 µs, two base round trips where that is more.
	RTO units.Duration
}

const (
	defaultPaths    = 128
	defaultAckBytes = 16 * units.KiB
	defaultRTO      = 65 * units.Microsecond
	// spanWindows and these bound how many packets from the expected one on either end keeps track of: a message of
	// thousands of flows stays within memory.
	spanWindows         = 6
	leastSpan, mostSpan = 1 << 8, 1 << 20
)

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	if c.Paths < 0 || c.Paths > spray.MaxPaths || c.Paths&(c.Paths-1) != 0 {
		return operr.New("configure", "uet", "over %d paths: must be a power of two up to %d (0: %d)", c.Paths, spray.MaxPaths, defaultPaths)
	}
	if c.AckBytes < 0 || c.AckBytes > units.GiB {
		return operr.New("configure", "uet", "an acknowledgement after %d bytes: must be between 0 (16 KiB) and 1 GiB", int64(c.AckBytes))
	}
	for _, d := range []units.Duration{c.BaseRTT, c.RTO} {
		if d < 0 || d > units.Second {
			return operr.New("configure", "uet", "base round trip of %v, RTO of %v: must be between 0 (the default) and 1 s", c.BaseRTT, c.RTO)
		}
	}
	return nil
}

// Factory returns what makes the ends of each message. c must be valid and not change any more. The flows that one factory
// makes take paths in orders of their own.
func (c *Config) Factory() (transport.Factory, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := *c
	d.Paths = cmp.Or(d.Paths, defaultPaths)
	d.AckBytes = cmp.Or(d.AckBytes, defaultAckBytes)
	if d.Congestion == nil {
		n := congestion.NSCCDefaults()
		n.BaseRTT = d.BaseRTT
		var err error
		if d.Congestion, err = congestion.NSCC(n); err != nil {
			return nil, err
		}
	}
	seed := uint32(0)
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		seed += 0x9e3779b9 // 2^32/φ, odd: the seeds of 2^32 flows differ
		return newSender(&d, m, seed), newReceiver(&d, &m)
	}, nil
}

// baseRTT is that of a message.
func (c *Config) baseRTT(m *transport.Message) units.Duration {
	return cmp.Or(c.BaseRTT, max(m.BaseRTT, 1))
}

// span is how many packets from the expected one on may be under way: a multiple of 64.
func (c *Config) span(m *transport.Message) uint32 {
	window := uint64(m.LineRate.Bytes(c.baseRTT(m))/m.MTU + 1)
	n := min(max(spanWindows*window, leastSpan), mostSpan, uint64(m.Packets())+64)
	return uint32(n+63) &^ 63
}

// paths is what a sender tells of its packets.
type paths interface {
	spray.Chooser
	Trimmed(path uint16)
	Lost(path uint16)
}

// A lossless chooser doesn't want to hear of losses.
type lossless struct{ spray.Chooser }

func (lossless) Trimmed(uint16) {}
func (lossless) Lost(uint16)    {}

func (c *Config) chooser(seed uint32) paths {
	if c.Oblivious {
		return lossless{spray.NewOblivious(c.Paths)}
	}
	return spray.NewRecycling(c.Paths, seed)
}
