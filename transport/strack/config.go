// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/congestion/spray"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config is what both ends of all flows have in common. The zero value is the paper's.
type Config struct {
	// Congestion makes the controller of each flow; nil: congestion.STrack with its defaults and
	// BaseRTT.
	Congestion congestion.Factory
	// Oblivious takes all paths in turn instead of those that were not marked.
	Oblivious bool
	// Paths is how many there are; 0: 256.
	Paths int
	// BaseRTT is that of the network without queues, net_base_rtt; 0: that of the flow's path.
	BaseRTT units.Duration
	// AckBytes is after how much payload an acknowledgement is sent; 0: 16 KiB, 4 packets of the MTU where
	// that is more, or half the product of line rate and BaseRTT where that is less, but at least a packet.
	AckBytes units.Bytes
	// Prompt is what is answered at once although AckBytes have not come.
	Prompt Prompt
	// RTO is how long the expected packet may stay the same at least: it is two of the latest round trip where that is more. 0: 200 µs,
	// two base round trips where that is more. The paper says hundreds of microseconds, at least tens.
	RTO units.Duration
	// Corruption is which share of packets is lost on links for other reasons than queues, below a tenth. Messages that fit
	// into the first window get parity for it, since it takes a probe or the timeout to find their losses; later packets show
	// those of longer ones, which get none. 0: no parity.
	Corruption float64
	// Span is how many packets from the expected one on both ends keep track of, a multiple of 64 up to 2^20; 0: what
	// the path asks for.
	Span uint32
}

// Prompt is which packets a receiver answers at once. Those that close a gap, duplicates, probes and the last are always.
type Prompt uint8

const (
	// PromptGaps is no others.
	PromptGaps Prompt = iota
	// PromptMarked is those that carry a mark, too, as in Ultra Ethernet's simulator (uet-htsim, UecSink): where senders of an incast
	// have windows of a few packets, they hear of it four times as often.
	PromptMarked
	// PromptExpected is all that were the expected packet: the second condition of section 3.3.1 to the letter.
	PromptExpected
)

const (
	defaultAckBytes   = 16 * units.KiB
	defaultAckPackets = 4
	defaultRTO        = 200 * units.Microsecond
	// probeRTTs is n of section 3.3.2, and probeDelay the delay of a probe's answer, in base round trips,
	// below which it proves a loss.
	probeRTTs, probeDelay = 3, 2
	// leastBeyond is the paper's min_threshold.
	leastBeyond = 5
	// leastSpan and MaxSpan bound how many packets from the expected one on either end keeps track
	// of: eight windows in between.
	leastSpan = 1 << 10
	// MaxSpan is the most for Config.Span.
	MaxSpan = 1 << 20
)

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	if c.Paths < 0 || c.Paths > spray.MaxPaths {
		return operr.New("configure", "strack", "over %d paths: must be between 1 and %d (0: all)", c.Paths, spray.MaxPaths)
	}
	if c.AckBytes < 0 || c.AckBytes > units.GiB {
		return operr.New("configure", "strack", "an acknowledgement after %d bytes: must be between 0 (16 KiB) and 1 GiB", int64(c.AckBytes))
	}
	if c.Span&63 != 0 || c.Span > MaxSpan {
		return operr.New("configure", "strack", "a span of %d packets: must be a multiple of 64 up to %d (0: what the path asks for)", c.Span, MaxSpan)
	}
	if !(c.Corruption >= 0 && c.Corruption < mostCorruption) {
		return operr.New("configure", "strack", "a corruption of %g: must be at least 0 and below %g", c.Corruption, mostCorruption)
	}
	if c.Prompt > PromptExpected {
		return operr.New("configure", "strack", "prompt %d: must be PromptGaps, PromptMarked or PromptExpected", c.Prompt)
	}
	for _, d := range []units.Duration{c.BaseRTT, c.RTO} {
		if d < 0 || d > units.Second {
			return operr.New("configure", "strack", "base round trip of %v, RTO of %v: must be between 0 (the default) and 1 s", c.BaseRTT, c.RTO)
		}
	}
	return nil
}

// Factory returns what makes the ends of each message. c must be valid and not change any more.
func (c *Config) Factory() (transport.Factory, error) {
	d, err := c.filled()
	if err != nil {
		return nil, err
	}
	plan := planFor(d.Corruption)
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		parity := plan.parity(&m, d.netRTT(&m))
		return newSender(d, m, parity, d.chooser()), newReceiver(d, &m, parity)
	}, nil
}

// filled is c with its defaults, if it is valid.
func (c *Config) filled() (*Config, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	d := *c
	d.Paths = cmp.Or(d.Paths, spray.MaxPaths)
	if d.Congestion == nil {
		s := congestion.STrackDefaults()
		s.BaseRTT = d.BaseRTT
		var err error
		if d.Congestion, err = congestion.STrack(s); err != nil {
			return nil, err
		}
	}
	return &d, nil
}

// Paths chooses the path of each packet, and hears which packets are repeated: each before the path of its
// repeat is chosen.
type Paths interface {
	spray.Chooser
	Lost(psn uint32)
}

// oblivious and adaptive are choosers that don't want to hear of losses.
type (
	oblivious struct{ spray.Oblivious }
	adaptive  struct{ spray.Bitmap }
)

func (*oblivious) Lost(uint32) {}

func (*adaptive) Lost(uint32) {}

func (c *Config) chooser() Paths {
	if c.Oblivious {
		return &oblivious{*spray.NewOblivious(c.Paths)}
	}
	return &adaptive{*spray.NewBitmap(c.Paths)}
}

// NewSender makes the sending end alone, for a driver that carries packets by itself, and has so many of parity, up to 64, behind those
// of the message. paths may be nil: those of the configuration.
func (c *Config) NewSender(m transport.Message, parity uint32, paths Paths) (*Sender, error) {
	d, err := c.filled()
	if err != nil {
		return nil, err
	}
	if paths == nil {
		paths = d.chooser()
	}
	return newSender(d, m, parity, paths), nil
}

// NewReceiver makes the receiving end of that alone.
func (c *Config) NewReceiver(m transport.Message, parity uint32) (*Receiver, error) {
	d, err := c.filled()
	if err != nil {
		return nil, err
	}
	return newReceiver(d, &m, parity), nil
}

// ackBytes has a window of one product answered twice at least: one of fewer packets than are acknowledged at once would stand still after each, until
// a probe asks.
func (c *Config) ackBytes(m *transport.Message) units.Bytes {
	half := m.LineRate.Bytes(c.netRTT(m)) / 2 / m.MTU * m.MTU
	return cmp.Or(c.AckBytes, min(max(defaultAckBytes, defaultAckPackets*m.MTU), max(half, m.MTU)))
}

// netRTT is net_base_rtt of a message.
func (c *Config) netRTT(m *transport.Message) units.Duration {
	return cmp.Or(c.BaseRTT, max(m.BaseRTT, 1))
}

// span is how many packets from the expected one on may be under way: a multiple of 64.
func (c *Config) span(m *transport.Message) uint32 {
	if c.Span != 0 {
		return c.Span
	}
	window := uint64(m.LineRate.Bytes(c.netRTT(m))/m.MTU + 1)
	n := min(max(16*window, leastSpan), MaxSpan)
	if !m.Open {
		n = min(n, uint64(m.Packets())+64)
	}
	return uint32(n+63) &^ 63
}
