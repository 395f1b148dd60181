// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// graceTime is how long the transfer under way, and the ends' last words to each other, may take after
// an interrupt.
const graceTime = 2 * units.Second

// An interrupted is what an end that is interrupted tells the other. It is a cancellation that says why: to package oob, the peer's is no
// mistake.
type interrupted struct{}

func (interrupted) Error() string        { return "interrupted" }
func (interrupted) Is(target error) bool { return target == context.Canceled }

var errInterrupted error = interrupted{}

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
