// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/units"
)

// How often progress is shown: drawn on a terminal, and elsewhere, where each line stays, as lines.
const (
	drawEvery = 100 * time.Millisecond
	logEvery  = 5 * time.Second
)

// A meter shows on stderr how far it has got: on a terminal a bar with rate and time left.
type meter struct {
	what string
	bar  *progressbar.ProgressBar // on a terminal
	last time.Time                // of the last line, elsewhere
}

// update is a reliability.Progress.
func (m *meter) update(done, total units.Bytes) {
	switch {
	case m.bar != nil:
		_ = m.bar.Set64(int64(done))
	case !m.last.IsZero():
		if time.Since(m.last) >= logEvery {
			m.last = time.Now()
			fmt.Fprintf(os.Stderr, "filecopy: %s: %v of %v\n", m.what, done, total)
		}
	case onTerminal():
		m.bar = newBar(m.what, total)
	default:
		m.last = time.Now()
		fmt.Fprintf(os.Stderr, "filecopy: %s %v\n", m.what, total)
	}
}

func onTerminal() bool {
	_, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
	return err == nil && os.Getenv("TERM") != "dumb"
}

// end ends the line that the bar is on.
func (m *meter) end() {
	if m.bar != nil {
		fmt.Fprintln(os.Stderr)
	}
}

func newBar(what string, total units.Bytes) *progressbar.ProgressBar {
	return progressbar.NewOptions64(int64(total),
		progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true), progressbar.OptionShowTotalBytes(true), progressbar.OptionUseIECUnits(true),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(drawEvery),
		progressbar.OptionSetRenderBlankState(true)) // which starts its clock
}

// summary says on stdout what was done and what it took.
func summary(e *endpoint, did, path string, size units.Bytes, took time.Duration) {
	u := e.conn.Stats().Units
	fmt.Printf("%s %s: %v in %.2f s (%v), SHA-256 agrees", did, path, size, took.Seconds(), units.RateOf(size, took))
	if u.Retransmitted > 0 {
		fmt.Printf(", %d of %d packets repeated", u.Retransmitted, u.Sent)
	}
	fmt.Println()
}
