// SPDX-License-Identifier: Apache-2.0

package sr

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/internal/spare"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/internal/loss"
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
	DefaultAlpha      = loss.DefaultAlpha      // 2
	MinAlpha          = loss.MinAlpha          // 0.001
	MaxAlpha          = loss.MaxAlpha          // 64
	DefaultMinTimeout = loss.DefaultMinTimeout // 10 ms
	MaxMinTimeout     = loss.MaxMinTimeout     // 10 s
)

// Config configures both halves of a Conn's transfers.
type Config struct {
	Mode Mode
	// Alpha is the paper's α, MinAlpha to MaxAlpha; 0 means DefaultAlpha, a
	// timeout of three round trips. In NACK mode it only covers a channel whose
	// round trip has never been measured.
	Alpha float64
	// MinTimeout is the shortest timeout; 0 means DefaultMinTimeout. It
	// matters on links whose round trip is below a scheduler's delays.
	MinTimeout units.Duration
}

// rules are the modes' rules.
var rules = [...]loss.Rule{RTO: loss.Timeout, NACK: loss.PathProof}

// New returns the scheme, which keeps what transfers teach about each channel's
// round trip for the transfers after them. It is for one Conn.
func New(c Config) (scheme.Scheme, error) {
	if c.Mode > NACK {
		return nil, operr.Argument("configure", "scheme sr", "unknown mode %d; use sr.RTO or sr.NACK", c.Mode)
	}
	r := &selectiveRepeat{config: loss.Config{Rule: rules[c.Mode], Alpha: c.Alpha, MinTimeout: c.MinTimeout}}
	if err := r.config.Check(); err != nil {
		return nil, operr.Argument("configure", "scheme sr", "%w", err)
	}
	r.params = r.config.Params()
	return r, nil
}

type selectiveRepeat struct {
	config loss.Config
	// estimates are shared by all transfers.
	estimates loss.Estimates
	params    []byte
	// Halves of transfers that have ended, for those that come.
	senders   spare.List[sender]
	receivers spare.List[receiver]
}

func (r *selectiveRepeat) Name() string {
	if r.config.Rule == loss.PathProof {
		return "sr-nack"
	}
	return "sr"
}

func (r *selectiveRepeat) ParityUnits(int) int { return 0 }

func (r *selectiveRepeat) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	if err := loss.CheckTransfer(&t, env); err != nil {
		return nil, fmt.Errorf("sr: %w", err)
	}
	s := r.senders.Take()
	if s == nil {
		s = &sender{scheme: r, Tracker: new(loss.Tracker)}
	}
	s.Begin(r.config, &r.estimates, t, env)
	return s, nil
}

func (r *selectiveRepeat) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	if err := loss.CheckTransfer(&t, env); err != nil {
		return nil, fmt.Errorf("sr: %w", err)
	}
	if err := r.config.CheckParams(t.Params); err != nil {
		return nil, fmt.Errorf("sr: %w", err)
	}
	v := r.receivers.Take()
	if v == nil {
		v = &receiver{scheme: r, Reporter: new(loss.Reporter)}
	}
	v.env = env
	v.Begin(t, env)
	return v, nil
}
