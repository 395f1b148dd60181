// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/sdr-rdma/go-sdr/units"
)

// How often progress is drawn: on a terminal, and elsewhere, where each drawing stays in the log.
const (
	drawEvery = 100 * time.Millisecond
	logEvery  = 2 * time.Second
)

// A meter draws a bar with rate and time left on stderr.
type meter struct {
	what string
	bar  *progressbar.ProgressBar
}

// update is a reliability.Progress.
func (m *meter) update(done, total units.Bytes) {
	if m.bar == nil {
		m.bar = newBar(m.what, total)
	}
	_ = m.bar.Set64(int64(done))
}

// end ends the line that the bar is on.
func (m *meter) end() {
	if m.bar != nil {
		fmt.Fprintln(os.Stderr)
	}
}

func newBar(what string, total units.Bytes) *progressbar.ProgressBar {
	every := logEvery
	if fi, err := os.Stderr.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		every = drawEvery
	}
	return progressbar.NewOptions64(int64(total),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionShowTotalBytes(true), progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(every),
		progressbar.OptionSetRenderBlankState(true)) // which starts its clock
}

// summary says on stdout what was done and what it took.
func summary(e *endpoint, did, path string, size units.Bytes, took time.Duration) {
	u := e.conn.Stats().Units
	fmt.Printf("%s %s: %v in %.2f s (%v), SHA-256 agrees", did, path, size, took.Seconds(), units.RateOf(size, units.Duration(took)))
	if u.Retransmitted > 0 {
		fmt.Printf(", %d of %d packets repeated", u.Retransmitted, u.Sent)
	}
	fmt.Println()
}
