// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Stops returns a context that ends when the program is to end in order: by Ctrl-C or SIGTERM, the second of which ends it at once, or because
// its terminal goes, unless nohup has that ignored. stop leaves signals to the kernel again.
func Stops() (ctx context.Context, stop func()) {
	ctx, gone := context.Background(), func() {}
	if !signal.Ignored(syscall.SIGHUP) {
		// A terminal may say more than once that it goes (its shell does, and the kernel), which ends nothing at once.
		ctx, gone = signal.NotifyContext(ctx, syscall.SIGHUP)
	}
	ctx, told := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, told)
	return ctx, func() { told(); gone() }
}
