// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"errors"
	"fmt"

	"github.com/sdr-rdma/go-sdr/congestion/spray"
	"github.com/sdr-rdma/go-sdr/internal/varint"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	core "github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config configures both halves of a Conn's transfers. The zero value is right for hosts on which the
// connection's rate is configured (reliability.Config.Rate), or found (reliability.Config.Congestion).
type Config struct {
	// LineRate is the rate that windows are reckoned from; 0: the highest at which Conn has paced in the transfer, 10 Gbit/s
	// where it doesn't.
	LineRate units.Rate
	// BaseRTT is the network's round trip without queues, up to 1 s, which is also the delay of queues that
	// the window aims at; 0: the least that was measured, at least 1 ms, since processes on hosts wake late.
	BaseRTT units.Duration
	// MinTimeout is the shortest timeout, up to 1 s; 0: 10 ms. Above it a timeout is three round trips.
	MinTimeout units.Duration
	// AckUnits is how many units are acknowledged at once, up to 1024; 0: 4.
	AckUnits int
	// AckDelay is for how long fewer may go without; 0: Env.AckInterval; units.Duration(-1): for ever, as
	// the paper has it.
	AckDelay units.Duration
	// Bitmap chooses paths by the paper's Algorithm 2.
	Bitmap bool
	// Parity gives messages of up to 192 units parity where units get lost without congestion. It is another scheme,
	// strack-p: both ends must have it.
	Parity bool
}

const (
	defaultLineRate   = 10 * units.Gbit
	leastBaseRTT      = units.Millisecond
	defaultMinTimeout = 10 * units.Millisecond
	defaultAckUnits   = 4
	maxAckUnits       = 1024
	// unknownRTT is assumed while nothing has been measured: the window is then Conn's.
	unknownRTT = units.Second
	// spareSpan is by how many units a span may reach beyond the transfer: the core adds 64, and takes a multiple of 64.
	spareSpan = 128
	// maxUnits keeps numbers within their bits.
	maxUnits = int(scheme.Probe) - 1
)

// New returns the scheme. It is for one Conn.
func New(c Config) (scheme.Scheme, error) {
	switch {
	case c.LineRate < 0:
		return nil, operr.Argument("configure", "scheme strack", "line rate %d bit/s: must not be negative (0: that of the connection)", int64(c.LineRate))
	case c.BaseRTT < 0 || c.BaseRTT > units.Second || c.MinTimeout < 0 || c.MinTimeout > units.Second:
		return nil, operr.Argument("configure", "scheme strack", "base round trip of %v, timeout of %v: must be between 0 (the default) and 1 s", c.BaseRTT, c.MinTimeout)
	case c.AckUnits < 0 || c.AckUnits > maxAckUnits:
		return nil, operr.Argument("configure", "scheme strack", "an acknowledgement after %d units: must be between 1 and %d (0: 4)", c.AckUnits, maxAckUnits)
	case c.AckDelay < -1 || c.AckDelay > units.Second:
		return nil, operr.Argument("configure", "scheme strack", "an acknowledgement after %v: must be between -1 ns (never) and 1 s (0: as the connection reports)", c.AckDelay)
	}
	if c.MinTimeout == 0 {
		c.MinTimeout = defaultMinTimeout
	}
	if c.AckUnits == 0 {
		c.AckUnits = defaultAckUnits
	}
	return &sprayed{cfg: c}, nil
}

// sprayed is the scheme of one Conn.
type sprayed struct {
	cfg    Config
	losses losses // of what this end has sent
	// base is the round trip that the path was last found to have, if that is longer than the least that Conn knows; 0: none was.
	// round looks for it, over all transfers: many are over before it is found.
	base   units.Duration
	round  baseRound
	wanted int // parity that the peer's last message had which wasn't too long for any
	// reordering is by how many packets of its channel one may be overtaken, as far as transfers before have shown, if that is more than
	// the constant of that name; an eighth is forgotten with each transfer.
	reordering int32
}

func (s *sprayed) Name() string {
	if s.cfg.Parity {
		return "strack-p"
	}
	return "strack"
}

// ParityUnits is as many as the peer wanted last for a message that may have parity: before it has lost anything it wants none.
func (s *sprayed) ParityUnits(int) int { return s.wanted }

func (s *sprayed) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	if err := check(&t, env); err != nil {
		return nil, err
	}
	return newSender(s, t, env)
}

func (s *sprayed) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	if err := check(&t, env); err != nil {
		return nil, err
	}
	p, err := parseParams(t.Params)
	if err != nil {
		return nil, err
	}
	if p.parity > 0 && (!s.cfg.Parity || t.Units > mostCoded) || int(p.span) >= t.Units+spareSpan {
		return nil, errParams
	}
	if t.Units <= mostCoded {
		s.wanted = p.parity
	}
	return newReceiver(&s.cfg, t, env, p)
}

func check(t *scheme.Transfer, env *scheme.Env) error {
	switch {
	case t.Units < 1 || t.Units > maxUnits:
		return fmt.Errorf("strack: a transfer of %d units is outside 1 to %d; choose larger units", t.Units, maxUnits)
	case env.Channels < 1 || env.Channels > spray.MaxPaths:
		return fmt.Errorf("strack: %d channels are outside 1 to %d", env.Channels, spray.MaxPaths)
	case env.MaxFrame < minFrame:
		return fmt.Errorf("strack: control frames of %d bytes are too small, %d are needed", env.MaxFrame, minFrame)
	}
	return nil
}

// version is the format of frames and parameters.
const version = 2

// params are what the receiver's half must have like the sender's. They travel in START.
type params struct {
	span     uint32
	ackUnits int
	parity   int
}

func (p *params) append(b []byte) []byte {
	w := varint.Writer{B: append(b, version)}
	w.Uint(uint64(p.span / 64))
	w.Int(p.ackUnits)
	w.Int(p.parity)
	return w.B
}

var errParams = errors.New("strack: the peer's parameters are not those of this version; install the same on both ends")

// parseParams reads parameters, which come from the network.
func parseParams(b []byte) (p params, err error) {
	if len(b) < 1 || b[0] != version {
		return p, errParams
	}
	r := varint.NewReader(b[1:])
	words, acks, parity := r.Uint(core.MaxSpan/64), r.Int(maxAckUnits), r.Int(mostParity)
	if r.Failed() || len(r.Rest()) > 0 || words < 1 || acks < 1 {
		return p, errParams
	}
	return params{uint32(words) * 64, acks, parity}, nil
}
