// SPDX-License-Identifier: Apache-2.0

package racktlp

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config is what both ends of all flows have in common. The zero value has the defaults.
type Config struct {
	// Window bounds what is under way and not known to be lost (RFC 6675's pipe), in bytes of payload; 0: one
	// bandwidth-delay product, as IRN has.
	Window units.Bytes
	// Span is how many windows from the first missing packet on may have been sent, 1 to 1000: what a NIC has times for.
	// 0: 3, what is sent until a packet that was lost once is acknowledged: a round trip and the reordering window, which is one more,
	// until it is known to be lost, and a third for its repeat. With 1 what has arrived behind a gap fills the window, too, as in
	// simulators that bound a queue pair by what is not acknowledged in order.
	Span int
	// Reorder is the reordering window; 0: one smoothed round trip.
	Reorder units.Duration
	// RTO is the timeout after which all that is under way is taken for lost; 0: 4 ms, four base round trips where that is more. A probe
	// goes after two, and needs one for its answer.
	RTO units.Duration
}

const (
	defaultRTO = 4 * units.Millisecond
	// defaultSpan is Config.Span's: a packet that is lost twice in a row stops the sender.
	defaultSpan = 3
	mostSpans   = 1000
	// mostSpan bounds what a sender keeps of a flow: 8 bytes for each packet, and two bitmaps.
	mostSpan = 1 << 20
)

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	if c.Window < 0 {
		return operr.New("configure", "racktlp", "window of %d bytes: must not be negative (0: one bandwidth-delay product)", int64(c.Window))
	}
	if c.Span < 0 || c.Span > mostSpans {
		return operr.New("configure", "racktlp", "span of %d windows: must be between 0 (the default, %d) and %d", c.Span, defaultSpan, mostSpans)
	}
	for _, d := range []units.Duration{c.Reorder, c.RTO} {
		if d < 0 || d > 60*units.Second {
			return operr.New("configure", "racktlp", "time of %d ns: must be between 0 (the default) and 60 s", int64(d))
		}
	}
	return nil
}

// Factory returns what makes the ends of each message. c must be valid and not change any more.
func (c *Config) Factory() transport.Factory {
	d := *c
	d.Span = cmp.Or(d.Span, defaultSpan)
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		return newSender(&d, &m), newReceiver(&d, &m)
	}
}

// window is in packets.
func (c *Config) window(m *transport.Message) uint32 {
	w := c.Window
	if w == 0 {
		w = m.LineRate.Bytes(m.BaseRTT) + m.MTU
	}
	return uint32(min(max((w+m.MTU-1)/m.MTU, 1), mostSpan))
}

// span is how many packets from the first missing one on may have been sent.
func (c *Config) span(m *transport.Message) uint32 {
	return uint32(min(uint64(c.Span)*uint64(c.window(m)), uint64(m.Packets()), mostSpan))
}
