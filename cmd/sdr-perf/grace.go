// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// graceTime is how long the transfer under way, and the ends' last words to each other, may take after
// an interrupt.
const graceTime = 2 * units.Second

// errInterrupted is what an interrupted end tells the other.
var errInterrupted = errors.New("interrupted")

// withGrace returns a context that ends graceTime after ctx does, because of errInterrupted.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	graced, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(graceTime):
			cancel(errInterrupted)
		case <-graced.Done():
		}
	})
	return graced, func() { stop(); cancel(nil) }
}

// giveUp ends the session of a point that failed while ctx, which had no grace, was interrupted: the peer may not
// have been told in time.
func (pt *point) giveUp(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		_ = pt.oob.CloseWithReason(errInterrupted.Error())
	}
}
