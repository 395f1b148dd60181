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

// A meter shows on stderr how far a point has got, if the run takes long.
type meter struct {
	begun time.Time
	every time.Duration
	bar   *progressbar.ProgressBar
}

func newMeter() *meter {
	m := &meter{begun: time.Now(), every: logEvery}
	if fi, err := os.Stderr.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
		m.every = drawEvery
	}
	return m
}

// Write passes on what the bar draws once it is time to show it.
func (m *meter) Write(b []byte) (int, error) {
	if time.Since(m.begun) < showAfter {
		return len(b), nil
	}
	return os.Stderr.Write(b)
}

// point begins a bar for what is measured next.
func (m *meter) point(what string) {
	m.bar = progressbar.NewOptions(barSteps,
		progressbar.OptionSetWriter(m), progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(24), progressbar.OptionThrottle(m.every),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetRenderBlankState(true)) // which starts its clock
}

// show says which part of the point is done.
func (m *meter) show(part float64) { _ = m.bar.Set(int(part * barSteps)) }

// clear takes the bar away, so that a result can be printed.
func (m *meter) clear() { _ = m.bar.Clear() }
