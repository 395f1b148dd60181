// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/sys/unix"
)

// Progress is shown from then on, and so often: elsewhere than on a terminal each report is a line.
const (
	showAfter = 2 * time.Second
	drawEvery = 100 * time.Millisecond
	logEvery  = 5 * time.Second
)

const (
	// barSteps is how finely a point is divided.
	barSteps = 1000
	// A bar is mostBar wide, or what a line has left beside its text, at most aroundBar and what is measured. Where that is
	// less than leastBar there are lines instead.
	mostBar   = 24
	leastBar  = 4
	aroundBar = len(" 100% ||  [59m59s:59m59s]") + 1
	// usualColumns is how wide a terminal is that doesn't say.
	usualColumns = 80
)

// A meter shows on stderr how far a point has got, if the run takes long.
type meter struct {
	begun   time.Time
	out     io.Writer
	columns int // of the terminal, 0 elsewhere
	stop    chan struct{}
	stopped sync.WaitGroup

	// These belong to the goroutine that shows, while there is one.
	what string
	bar  *progressbar.ProgressBar // on a terminal
	last time.Time                // of the last line, elsewhere
}

// newMeter makes a meter that draws on a terminal and writes lines elsewhere. It has no colours (no-color.org).
func newMeter(out *os.File) *meter {
	m := &meter{begun: time.Now(), out: out}
	if size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ); err == nil && os.Getenv("TERM") != "dumb" {
		if m.columns = int(size.Col); m.columns == 0 {
			m.columns = usualColumns
		}
	}
	return m
}

// Write passes on what the bar draws once it is time to show it.
func (m *meter) Write(b []byte) (int, error) {
	if time.Since(m.begun) < showAfter {
		return len(b), nil
	}
	return m.out.Write(b)
}

// point begins what is measured next: look says how far it has got, from any goroutine, and is asked until clear is called.
func (m *meter) point(what string, look func() standing) {
	m.what, m.last, m.bar = what, time.Now(), nil
	if width := min(mostBar, m.columns-aroundBar-len(what)); width >= leastBar {
		m.bar = progressbar.NewOptions(barSteps,
			progressbar.OptionSetWriter(m), progressbar.OptionSetDescription(what),
			progressbar.OptionSetWidth(width), progressbar.OptionThrottle(drawEvery),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetRenderBlankState(true)) // which starts its clock
	}
	m.stop = make(chan struct{})
	m.stopped.Go(func() {
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-tick.C:
				if m.due() {
					m.show(look())
				}
			}
		}
	})
}

// due says whether something is to be shown. A bar reckons what is left from how fast it was set lately: it hears all, and
// Write hides what comes too early.
func (m *meter) due() bool { return m.bar != nil || time.Since(m.last) >= logEvery }

// show shows how far the point has got.
func (m *meter) show(s standing) {
	switch {
	case m.bar != nil && s.warming: // that it stands still says nothing about what counts
	case m.bar != nil:
		_ = m.bar.Set(int(s.part * barSteps))
	case s.warming:
		fmt.Fprintf(m.out, "sdr-perf: %s: warming up, %v so far\n", m.what, s.arrived)
	default:
		fmt.Fprintf(m.out, "sdr-perf: %s: %.0f %% done\n", m.what, 100*s.part)
	}
	m.last = time.Now()
}

// clear takes the bar away, so that a result can be printed.
func (m *meter) clear() {
	close(m.stop)
	m.stopped.Wait()
	if m.bar != nil {
		_ = m.bar.Clear()
	}
}
