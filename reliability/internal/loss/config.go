// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Rule decides what is lost. Its value travels in the parameters of a transfer.
type Rule uint8

// Rules.
const (
	Timeout Rule = iota
	PathProof
)

// Defaults and limits of Config, as package sr documents them.
const (
	DefaultAlpha      = 2.0
	MinAlpha          = 0.001
	MaxAlpha          = 64.0
	DefaultMinTimeout = 10 * units.Millisecond
	MaxMinTimeout     = 10 * units.Second
)

// Config configures the Tracker of a Conn's transfers.
type Config struct {
	Rule Rule
	// Alpha is the paper's α, MinAlpha to MaxAlpha; 0 means DefaultAlpha, a
	// timeout of three round trips. With PathProof it only covers a channel
	// whose round trip has never been measured.
	Alpha float64
	// MinTimeout is the shortest timeout, up to MaxMinTimeout; 0 means
	// DefaultMinTimeout.
	MinTimeout units.Duration
}

// Check fills in the defaults, and refuses what is out of range.
func (c *Config) Check() error {
	switch {
	case c.Alpha != 0 && !(c.Alpha >= MinAlpha && c.Alpha <= MaxAlpha): // NaN is outside, too
		return fmt.Errorf("alpha of %v is outside %v to %v", c.Alpha, MinAlpha, MaxAlpha)
	case c.MinTimeout < 0 || c.MinTimeout > MaxMinTimeout:
		return fmt.Errorf("a minimum timeout of %v is outside 1 ns to %v", c.MinTimeout, MaxMinTimeout)
	}
	if c.Alpha == 0 {
		c.Alpha = DefaultAlpha
	}
	if c.MinTimeout == 0 {
		c.MinTimeout = DefaultMinTimeout
	}
	return nil
}

const (
	// MinFrame is the least room for an acknowledgement: it holds the fixed part,
	// one mark and two short sections.
	MinFrame = 96
	// MaxUnits is what the numbers of data units can name.
	MaxUnits = int(scheme.Probe)
	// MaxChannels keeps channel numbers within the 16 bits of a unit's state.
	MaxChannels = 1 << 12
)

// CheckTransfer refuses transfers and connections that this package can't serve.
func CheckTransfer(t *scheme.Transfer, env *scheme.Env) error {
	switch {
	case t.Units < 1 || t.Units > MaxUnits:
		return fmt.Errorf("a transfer of %d units is outside 1 to %d; choose larger units", t.Units, MaxUnits)
	case env.Channels < 1 || env.Channels > MaxChannels:
		return fmt.Errorf("%d channels are outside 1 to %d", env.Channels, MaxChannels)
	case env.MaxFrame < MinFrame:
		return fmt.Errorf("control frames of %d bytes are too small, %d are needed", env.MaxFrame, MinFrame)
	}
	return nil
}

// version is the format of acknowledgements.
const version = 1

// Params is what the peer's Reporter must know of a transfer. It travels in START.
func (c *Config) Params() []byte { return []byte{version, byte(c.Rule)} }

var errParams = errors.New("the peer's parameters are not those of this version and mode; configure both ends alike")

// CheckParams refuses the parameters of a peer of another version or rule.
func (c *Config) CheckParams(b []byte) error {
	if string(b) != string([]byte{version, byte(c.Rule)}) {
		return errParams
	}
	return nil
}
