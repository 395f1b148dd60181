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
	defaultAlpha      = 2.0
	minAlpha          = 0.001
	maxAlpha          = 64.0
	defaultMinTimeout = 10 * units.Millisecond
	maxMinTimeout     = 10 * units.Second
)

// Config configures the Tracker of a Conn's transfers.
type Config struct {
	Rule Rule
	// Alpha is the paper's α, minAlpha to maxAlpha; 0 means defaultAlpha, a
	// timeout of three round trips. With PathProof it only covers a channel
	// whose round trip has never been measured.
	Alpha float64
	// MinTimeout is the shortest timeout, up to maxMinTimeout; 0 means
	// defaultMinTimeout.
	MinTimeout units.Duration
}

// Check fills in the defaults, and refuses what is out of range.
func (c *Config) Check() error {
	switch {
	case c.Alpha != 0 && !(c.Alpha >= minAlpha && c.Alpha <= maxAlpha): // NaN is outside, too
		return fmt.Errorf("alpha of %v is outside %v to %v", c.Alpha, minAlpha, maxAlpha)
	case c.MinTimeout < 0 || c.MinTimeout > maxMinTimeout:
		return fmt.Errorf("a minimum timeout of %v is outside 1 ns to %v", c.MinTimeout, maxMinTimeout)
	}
	if c.Alpha == 0 {
		c.Alpha = defaultAlpha
	}
	if c.MinTimeout == 0 {
		c.MinTimeout = defaultMinTimeout
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
