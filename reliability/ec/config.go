// SPDX-License-Identifier: Apache-2.0

package ec

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Code is an erasure code.
type Code = scheme.CodeKind

// Codes.
const (
	XOR = scheme.XOR
	MDS = scheme.MDS
)

// Defaults and limits of Config.
const (
	// MaxGroup is the largest k + m.
	MaxGroup    = 255
	DefaultBeta = 0.5
	MinBeta     = 0.001
	MaxBeta     = 64.0
)

// Config configures both halves of a Conn's transfers.
type Config struct {
	// Code is XOR or MDS.
	Code Code
	// K is how many data units a group has and M how many parity units:
	// 1 ≤ M ≤ K, K + M ≤ 255. The sender's choice counts.
	K, M int
	// Beta is the paper's β, MinBeta to MaxBeta; 0 means DefaultBeta. A group
	// falls back β round trips after the expected arrival of its last unit. The
	// receiver's choice counts.
	Beta float64
	// WholeSubmessage makes the receiver ask for all data units of a group
	// that can't be decoded, as in the paper, instead of those that decoding
	// lacks. What is then lost again is asked for by name. The receiver's
	// choice counts.
	WholeSubmessage bool
}

func (c *Config) check() error {
	if c.Code != XOR && c.Code != MDS {
		return fmt.Errorf("unknown code %d; use ec.XOR or ec.MDS", c.Code)
	}
	if err := checkCode(c.K, c.M); err != nil {
		return err
	}
	if c.Beta != 0 && !(c.Beta >= MinBeta && c.Beta <= MaxBeta) { // NaN is outside, too
		return fmt.Errorf("beta of %v is outside %v to %v", c.Beta, MinBeta, MaxBeta)
	}
	if c.Beta == 0 {
		c.Beta = DefaultBeta
	}
	return nil
}

func checkCode(k, m int) error {
	switch {
	case k < 1 || k > MaxGroup-1:
		return fmt.Errorf("k of %d is outside 1 to %d", k, MaxGroup-1)
	case m < 1 || m > k:
		return fmt.Errorf("m of %d is outside 1 to k, %d", m, k)
	case k+m > MaxGroup:
		return fmt.Errorf("k + m of %d + %d is above %d", k, m, MaxGroup)
	}
	return nil
}

// New returns the scheme, for one Conn.
func New(c Config) (scheme.Scheme, error) {
	if err := c.check(); err != nil {
		return nil, operr.Argument("configure", "scheme ec", "%w", err)
	}
	return &erasureCoding{config: c, peerK: c.K, peerM: c.M}, nil
}

type erasureCoding struct {
	config Config
	// peerK and peerM are the peer's k and m, once it has said them, for which Recv offers room.
	peerK, peerM int
}

func (e *erasureCoding) Name() string {
	if e.config.Code == XOR {
		return "ec-xor"
	}
	return "ec-mds"
}

func (e *erasureCoding) ParityUnits(n int) int { return (n + e.peerK - 1) / e.peerK * e.peerM }

// maxUnits keeps the numbers of data and parity units within their bits.
const maxUnits = int(scheme.Probe) - MaxGroup

func checkTransfer(t *scheme.Transfer, env *scheme.Env) error {
	switch {
	case t.Units < 1 || t.Units > maxUnits:
		return fmt.Errorf("ec: a transfer of %d units is outside 1 to %d; choose larger units", t.Units, maxUnits)
	case env.Channels < 1:
		return fmt.Errorf("ec: %d channels; at least 1 is needed", env.Channels)
	case env.MaxFrame < minFrame:
		return fmt.Errorf("ec: control frames of %d bytes are too small, %d are needed", env.MaxFrame, minFrame)
	}
	return nil
}

func (e *erasureCoding) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	if err := checkTransfer(&t, env); err != nil {
		return nil, err
	}
	p := params{code: e.config.Code, k: e.config.K, m: e.config.M, unitTime: min(env.UnitTime(&t), maxUnitTime)}
	return newSender(e.config, p, t, env), nil
}

func (e *erasureCoding) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	if err := checkTransfer(&t, env); err != nil {
		return nil, err
	}
	p, err := parseParams(t.Params, e.config.Code)
	if err != nil {
		return nil, err
	}
	e.peerK, e.peerM = p.k, p.m
	return newReceiver(e.config, p, t, env), nil
}

// minFallback is the shortest fallback timeout, because a β small enough
// for a network is not small enough for a scheduler.
const minFallback = units.Millisecond

// fallback is FTO without the expected arrival: β·RTT (paper, 4.1.2 and 4.2.3).
func (c *Config) fallback(env *scheme.Env) units.Duration {
	return max(units.Duration(c.Beta*float64(loss.RTT(env))), 4*env.RTTVar, minFallback)
}
