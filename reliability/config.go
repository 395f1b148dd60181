// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"fmt"
	"log/slog"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config configures a Conn. Both sides must agree on the scheme's name, Unit and
// MessageSize; Connect says so when they don't.
type Config struct {
	// Scheme is the reliability scheme, for this Conn alone.
	Scheme scheme.Scheme
	// Unit is what is repaired at once: a multiple of the MTU. Default: one
	// packet. With packet drop rate p, a unit of N packets is lost with
	// probability 1−(1−p)^N. With a packet engine that keeps packet bits on its
	// device (sdr.EndpointConfig.Engine) it is a multiple of the QP's chunk, at
	// both ends, and the scheme is one without parity.
	Unit units.Bytes
	// MessageSize is the length of the messages that carry a long transfer, a
	// multiple of Unit. Default: 64 MiB or the QP's largest message.
	MessageSize units.Bytes
	// Window is the number of data messages that a receive keeps posted.
	// Default 128, or half of the split's slots if that is less: 8 GiB, so that
	// a unit that is lost three times in a row holds nothing up at 400 Gbit/s
	// and 25 ms. At least 2 with a scheme.Partial, whose messages are completed when packets
	// have come of those half a window on.
	Window int
	// Rate bounds the rate of user data at which sends are paced: the controller of
	// Congestion may choose less. 0: it alone decides, and can't be dcqcn, which begins at the line rate.
	Rate units.Rate
	// Congestion is the congestion control of all sends of the Conn: its Name, as
	// congestion.Parse takes it, or its New, which may be the user's own as in
	// examples/controller. Default: auto.
	Congestion congestion.Spec
	// Trims says that all switches on the path trim what they would drop. What gets lost without word of it is then no
	// congestion, and adaptive sends parity for that from the beginning; without Trims a Conn knows it once a switch has trimmed a packet.
	// The device must send data that may be trimmed (backend.Caps.Trims).
	Trims bool
	// NoProgress is how long a transfer may stand still. A send's time runs
	// from StartSend on, or from the end of the one before, so it also bounds the
	// wait for a receiver that posts no buffer, as the RNR retries of an RC queue
	// pair do; a receive's from the first packet on. Time for which this end itself stood still, with its process or virtual machine, isn't
	// counted. At least 1 ms, default 30 s.
	NoProgress units.Duration
	// AwaitBuffer makes sends wait without limit for a receiver that lives and posts
	// no buffer, as seven RNR retries do. It suits applications that push back by
	// not receiving.
	AwaitBuffer bool
	// ParityPool bounds the memory for parity on each side, for each direction; it is allocated
	// 64 MiB at a time when it is needed. Default 512 MiB: a quarter of what 400 Gbit/s have
	// in flight for 25 ms, and as much again for repairs. A scheme that had less room than it
	// wanted says so in Stats.Units.Explain.
	ParityPool units.Bytes
	// CodingTime is how long a coding job takes in virtual time, where it
	// runs at once. Only simulations set it.
	CodingTime units.Duration
	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
}

// defaultCongestion is the controller of a Conn that names none.
const defaultCongestion = "auto"

func (c *Config) fill(q sdr.QPConfig) {
	if c.Unit == 0 {
		c.Unit = q.MTU
	}
	if c.MessageSize == 0 {
		c.MessageSize = min(q.MaxMessage, max(64*units.MiB, c.Unit))
		c.MessageSize -= c.MessageSize % max(c.Unit, 1)
	}
	if c.Window == 0 {
		c.Window = min(128, q.Split.Slots()/2)
	}
	if c.NoProgress == 0 {
		c.NoProgress = 30 * units.Second
	}
	if c.ParityPool == 0 {
		c.ParityPool = 512 * units.MiB
	}
	if c.Congestion.New == nil {
		if c.Congestion.Name == "" {
			c.Congestion.Name = defaultCongestion
		}
		if s, err := congestion.Parse(c.Congestion.Name); err == nil {
			c.Congestion = s
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) check(q sdr.QPConfig, caps backend.Caps) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", sdr.ErrArgument, fmt.Sprintf(format, a...))
	}
	if c.Congestion.New == nil {
		_, err := congestion.Parse(c.Congestion.Name)
		return bad("%v", err)
	}
	if err := c.Congestion.CheckDevice(c.Rate); err != nil {
		return bad("congestion control %q: %v", c.Congestion.Name, err)
	}
	switch {
	case c.Scheme == nil:
		return bad("no scheme: give one, such as sr.New's")
	case len(c.Scheme.Name()) > maxName:
		return bad("a scheme with a name of %d bytes: want at most %d", len(c.Scheme.Name()), maxName)
	case c.Unit < q.MTU || c.Unit%q.MTU != 0:
		return bad("repair unit %d: want a multiple of the MTU %d", c.Unit, q.MTU)
	case c.MessageSize < c.Unit || c.MessageSize%c.Unit != 0 || c.MessageSize > q.MaxMessage:
		return bad("message size %d: want a multiple of the unit %d of at most %d", c.MessageSize, c.Unit, q.MaxMessage)
	case c.Window < 1 || c.Window > q.Split.Slots()/2:
		return bad("window of %d messages: want 1 to %d", c.Window, q.Split.Slots()/2)
	case c.Trims && !caps.Trims:
		return bad("a path whose switches trim, and a device whose data they may not trim: configure the device, or leave Trims out")
	case c.Rate < 0:
		return bad("rate %d: must not be negative", c.Rate)
	case c.NoProgress < units.Millisecond:
		return bad("progress limit %v: want at least 1 ms", c.NoProgress)
	case c.ParityPool < 0:
		return bad("parity pool %d: must not be negative", c.ParityPool)
	}
	return nil
}

// checkWithoutPackets refuses what needs packet bits, where a packet engine keeps them to itself.
func (c *Config) checkWithoutPackets(q sdr.QPConfig) error {
	switch {
	case c.Unit%q.Chunk != 0:
		return fmt.Errorf("%w: repair unit %d: the packet engine keeps packet bits to itself: give both ends a Unit that is a multiple of the chunk %d",
			sdr.ErrArgument, c.Unit, q.Chunk)
	case c.Scheme.ParityUnits(int(c.MessageSize/c.Unit)) > 0:
		return fmt.Errorf("%w: scheme %s decodes, and the packet engine keeps the bits that say so to itself: choose a scheme that repeats",
			sdr.ErrNotSupported, c.Scheme.Name())
	}
	return nil
}
