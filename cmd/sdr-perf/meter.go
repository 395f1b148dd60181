// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress is shown from then on, and so often: elsewhere than on a terminal each drawing stays.
const (
	showAfter = 2 * time.Second
	drawEvery = 100 * time.Millisecond
	logEvery  = 5 * time.Second
)

// barSteps is how finely a point is divided.
const barSteps = 1000

// A meter shows on stderr how far a point has got, if that takes long.
type meter struct {
	begun time.Time
	every time.Duration
	what  string
	bar   *progressbar.ProgressBar
}

func newMeter() *meter {
	m := &meter{begun: time.Now(), every: logEvery}
	if fi, err := os.Stderr.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		m.every = drawEvery
	}
	return m
}

// point names what is measured next.
func (m *meter) point(what string) { m.what = what }

// show says which part of the point is done.
func (m *meter) show(part float64) {
	if m.bar == nil {
		if time.Since(m.begun) < showAfter {
			return
		}
		m.bar = progressbar.NewOptions(barSteps,
			progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetDescription(m.what),
			progressbar.OptionSetWidth(24), progressbar.OptionThrottle(m.every),
			progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())
	}
	_ = m.bar.Set(int(part * barSteps))
}

// clear takes the bar away, so that a result can be printed.
func (m *meter) clear() {
	if m.bar != nil {
		_ = m.bar.Clear()
		m.bar = nil
	}
}
