// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"time"
)

// SendOfFile says something in the middle of a file, for tests of peers that say what SendFile and RecvFile never do.
func (c *Conn) SendOfFile(ctx context.Context, b []byte) error { return c.sendOfFile(ctx, b) }

// SetStill changes for how long Close waits while the peer takes nothing.
func (s *Stream) SetStill(d time.Duration) { s.still = d }
