// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/units"
)

// SendOfFile says something in the middle of a file, for tests of peers that say what SendFile and RecvFile never do.
func (c *Conn) SendOfFile(ctx context.Context, b []byte) error { return c.sendOfFile(ctx, b) }

// SendPiece sends n bytes as a piece of a message, for tests of peers that announce what they don't send.
func (c *Conn) SendPiece(ctx context.Context, n int, first bool, more uint32) error {
	b, err := c.out.pool.get()
	if err != nil {
		return err
	}
	defer c.out.pool.put(b)
	return c.lane[messageLane].Send(ctx, b.region.mr, b.off, units.Bytes(n),
		reliability.SendOptions{Imm: piece{kindMessage, first, more}.imm(), HasImm: true})
}

// SetStill changes for how long Close waits while the peer takes nothing.
func (s *Stream) SetStill(d time.Duration) { s.still = d }

// ConnectTimeout is what cfg makes of sdr.QPConfig.ConnectTimeout.
func ConnectTimeout(cfg *Config) (units.Duration, error) {
	c, err := cfg.complete()
	return c.Link.ConnectTimeout(c.Silence), err
}
