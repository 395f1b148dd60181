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

// A meter shows on stderr how far it has got: on a terminal by a bar with rate and time left, elsewhere, where
// each line stays, by a line now and then.
type meter struct {
	what string
	bar  *progressbar.ProgressBar
	last time.Time // of the last line
}

// update is an sdrnet.Progress.
func (m *meter) update(done, total units.Bytes) {
	_, err := unix.IoctlGetTermios(int(os.Stderr.Fd()), unix.TCGETS)
	switch first := m.last.IsZero(); {
	case err == nil && os.Getenv("TERM") != "dumb":
		if m.bar == nil {
			m.bar = progressbar.DefaultBytes(int64(total), m.what)
		}
		_ = m.bar.Set64(int64(done))
	case first || time.Since(m.last) >= 5*time.Second:
		m.last = time.Now()
		fmt.Fprintf(os.Stderr, "filecopy: %s: %v of %v\n", m.what, done, total)
	}
}

// end ends the line that a bar is on.
func (m *meter) end() {
	if m.bar != nil && !m.bar.IsFinished() {
		_ = m.bar.Exit()
	}
}
