// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// DefaultTimeout bounds each step (connect, handshake, Exchange, Send) whose context has no
// deadline of its own.
const DefaultTimeout = 10 * units.Second

// DefaultDeadHostLimit is longer than a route usually takes to move.
const DefaultDeadHostLimit = 10 * units.Second

// minDeadHostLimit leaves TCP time for a few repetitions.
const minDeadHostLimit = units.Second

// DefaultMaxBlob is the longest blob or message accepted when Config.MaxBlob is zero.
const DefaultMaxBlob = units.Bytes(1 << 20)

// maxMaxBlob keeps a frame's length far inside its 32 bits, and bounds what a mistake in Config.MaxBlob can cost.
const maxMaxBlob = units.Bytes(64 << 20)

// Config holds the options of one end. The zero value is ready for use.
type Config struct {
	// TLS, when not nil, wraps the connection; both ends must agree. A client without ServerName
	// verifies the host that it dialled. A server needs a certificate.
	TLS *tls.Config
	// Timeout bounds each step whose context has no deadline. Zero is DefaultTimeout. A Listener
	// shakes hands for 3 s at most.
	Timeout units.Duration
	// DeadHostLimit is how long the peer's host may be silent, with data or keepalive probes on the way
	// to it, before the connection ends with ErrPeerDied: an outage of the network that is shorter
	// harms nothing. Zero is DefaultDeadHostLimit, less than 1 s is 1 s. Conn.SetDeadHostLimit
	// changes it later.
	DeadHostLimit units.Duration
	// MaxBlob is the longest blob or message that this end accepts and sends, at most 64 MiB.
	// Zero is DefaultMaxBlob.
	MaxBlob units.Bytes
	// Logger gets the peers that a Listener turned away, or was told of (Listener.TurnedAway), and those that left or died while connecting,
	// at level Warn: ten at once and one a second in the long run, however many there are. Nil logs nothing.
	Logger *slog.Logger
	// OnReject, when not nil, is called with each of these peers, or with the Listener's own address when the
	// kernel gives it none, from several goroutines at a time.
	OnReject func(peer net.Addr, err error)
}

func (cfg Config) timeout() time.Duration {
	if cfg.Timeout <= 0 {
		return DefaultTimeout
	}
	return cfg.Timeout
}

func (cfg Config) deadHostLimit() units.Duration {
	if cfg.DeadHostLimit <= 0 {
		return DefaultDeadHostLimit
	}
	return cfg.DeadHostLimit
}

func (cfg Config) maxBlob() int {
	if cfg.MaxBlob <= 0 {
		return int(DefaultMaxBlob)
	}
	return int(min(cfg.MaxBlob, maxMaxBlob))
}

// bound gives ctx the default time limit if it has none.
func (cfg Config) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, cfg.timeout())
}
