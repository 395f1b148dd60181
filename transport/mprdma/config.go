// SPDX-License-Identifier: Apache-2.0

package mprdma

import (
	"cmp"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config is what both ends of all flows have in common. The zero value has the defaults.
type Config struct {
	// Initial is the window at the beginning, in packets; 0: one bandwidth-delay product.
	Initial int
	// Delta is how far behind the newest acknowledged packet an answer may be before its path is taken for too slow; 0: 64, of
	// the public artefact (NS3-MP-RDMA).
	Delta int
	// Bitmap is how many packets beyond the first missing one the receiver takes; 0: 64.
	Bitmap int
	// RTO is the timeout without progress; 0: 4 ms, two base round trips where that is more.
	RTO units.Duration
	// Seed is of the paths that are drawn.
	Seed uint64
}

const (
	defaultDelta  = 64
	defaultBitmap = 64
	defaultRTO    = 4 * units.Millisecond
	// probesPerMille is the probability that a round trip tries a new path.
	probesPerMille = 10
	// mostPackets bounds the windows, and what is kept of a flow to two bitmaps of 128 KiB.
	mostPackets = 1 << 20
)

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	if c.Initial < 0 || c.Initial > mostPackets || c.Delta < 0 || c.Delta > mostPackets || c.Bitmap < 0 || c.Bitmap > mostPackets {
		return operr.New("configure", "mprdma", "initial window of %d packets, delta %d, bitmap %d: must be between 0 (the default) and %d", c.Initial, c.Delta, c.Bitmap, mostPackets)
	}
	if c.RTO < 0 || c.RTO > 60*units.Second {
		return operr.New("configure", "mprdma", "RTO of %d ns: must be between 0 (the default) and 60 s", int64(c.RTO))
	}
	return nil
}

// Factory returns what makes the ends of each message. c must be valid and not change any more. Each flow that one factory
// makes draws paths of its own.
func (c *Config) Factory() transport.Factory {
	d := *c
	d.Delta = cmp.Or(d.Delta, defaultDelta)
	d.Bitmap = cmp.Or(d.Bitmap, defaultBitmap)
	draws := d.Seed
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		draws += 0x9e3779b97f4a7c15 // 2^64/φ, odd: the seeds of flows differ
		return newSender(&d, &m, draws), newReceiver(&d, &m)
	}
}

// initial is the first window, in packets.
func (c *Config) initial(m *transport.Message) uint32 {
	n := units.Bytes(c.Initial)
	if n == 0 {
		n = (m.LineRate.Bytes(m.BaseRTT)+m.MTU-1)/m.MTU + 1
	}
	return uint32(min(max(n, 1), mostPackets))
}
