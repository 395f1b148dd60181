// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Mode is a rule that decides when a unit is sent again.
type Mode uint8

// Modes.
const (
	// RTO repeats a unit RTT + α·RTT after it was sent (paper, 4.1.1).
	RTO Mode = iota
	// NACK repeats a unit when a later packet of its channel has arrived and
	// it has not.
	NACK
)

// Defaults and limits of Config.
const (
	DefaultAlphaMilli = 2000
	MaxAlphaMilli     = 64000
	DefaultMinTimeout = 10 * units.Millisecond
	MaxMinTimeout     = 10 * units.Second
)

// Config configures both halves of a Conn's transfers.
type Config struct {
	Mode Mode
	// AlphaMilli is α in thousandths, 1 to MaxAlphaMilli; 0 means the paper's
	// α = 2, a timeout of three round trips. In NACK mode it only covers a
	// channel whose round trip has never been measured.
	AlphaMilli int
	// MinTimeout is the shortest timeout; 0 means DefaultMinTimeout. It
	// matters on links whose round trip is below a scheduler's delays.
	MinTimeout units.Duration
}

func (c *Config) check() error {
	switch {
	case c.Mode > NACK:
		return fmt.Errorf("sr: unknown mode %d", c.Mode)
	case c.AlphaMilli < 0 || c.AlphaMilli > MaxAlphaMilli:
		return fmt.Errorf("sr: alpha of %d/1000 is outside 1/1000 to %d/1000", c.AlphaMilli, MaxAlphaMilli)
	case c.MinTimeout < 0 || c.MinTimeout > MaxMinTimeout:
		return fmt.Errorf("sr: a minimum timeout of %v is outside 1 ns to %v", c.MinTimeout, MaxMinTimeout)
	}
	if c.AlphaMilli == 0 {
		c.AlphaMilli = DefaultAlphaMilli
	}
	if c.MinTimeout == 0 {
		c.MinTimeout = DefaultMinTimeout
	}
	return nil
}

// New returns the scheme, which keeps what transfers teach about each channel's
// round trip for the transfers after them. It is for one Conn.
func New(c Config) (scheme.Scheme, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &selectiveRepeat{config: c}, nil
}

type selectiveRepeat struct {
	config Config
	// estimates[c] is what is known of channel c, shared by all transfers.
	estimates []*estimate
}

func (r *selectiveRepeat) Name() string {
	if r.config.Mode == NACK {
		return "sr-nack"
	}
	return "sr"
}

func (r *selectiveRepeat) ParityUnits(int) int { return 0 }

// paramsVersion is the format of ACK frames, announced in START.
const paramsVersion = 1

func (r *selectiveRepeat) params() [2]byte { return [2]byte{paramsVersion, byte(r.config.Mode)} }

// maxChannels keeps channel numbers within the 16 bits of a unit's state.
const maxChannels = 1 << 12

// maxUnits is what the numbers of data units can name.
const maxUnits = int(scheme.Marker)

func checkTransfer(t *scheme.Transfer, env *scheme.Env) error {
	switch {
	case t.Units < 1 || t.Units > maxUnits:
		return fmt.Errorf("sr: a transfer of %d units is outside 1 to %d; choose larger units", t.Units, maxUnits)
	case env.Channels < 1 || env.Channels > maxChannels:
		return fmt.Errorf("sr: %d channels are outside 1 to %d", env.Channels, maxChannels)
	case env.MaxFrame < minFrame:
		return fmt.Errorf("sr: control frames of %d bytes are too small, %d are needed", env.MaxFrame, minFrame)
	}
	return nil
}

var errParams = errors.New("sr: the peer's parameters are not those of this version and mode of sr; configure both ends alike")

func (r *selectiveRepeat) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	if err := checkTransfer(&t, env); err != nil {
		return nil, err
	}
	for len(r.estimates) < env.Channels {
		r.estimates = append(r.estimates, new(estimate))
	}
	return newSender(r.config, r.params(), r.estimates[:env.Channels], t, env), nil
}

func (r *selectiveRepeat) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	if err := checkTransfer(&t, env); err != nil {
		return nil, err
	}
	if p := r.params(); string(t.Params) != string(p[:]) {
		return nil, errParams
	}
	return newReceiver(t, env), nil
}
