// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// Progress is shown from then on, and so often.
const (
	showAfter = 2 * time.Second
	showEvery = 2 * time.Second
)

// A meter shows on standard error how far things have got and how long they will still take, once they
// take long. It may be used by several goroutines.
type meter struct {
	out   io.Writer
	what  string
	mu    sync.Mutex
	begun time.Time
	shown time.Time
	parts []float64 // done, of each piece of work
	costs []float64 // shares of the whole
}

// newMeter makes the meter of pieces of work with these relative costs; out nil: it is silent.
func newMeter(out io.Writer, what string, costs ...float64) *meter {
	now := time.Now()
	return &meter{out: out, what: what, begun: now, shown: now, parts: make([]float64, len(costs)), costs: costs}
}

// piece returns what piece i reports its progress to.
func (m *meter) piece(i int) func(part float64) {
	return func(part float64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.parts[i] = part
		now := time.Now()
		if m.out == nil || now.Sub(m.begun) < showAfter || now.Sub(m.shown) < showEvery {
			return
		}
		m.shown = now
		done, all := 0.0, 0.0
		for i, c := range m.costs {
			done, all = done+c*m.parts[i], all+c
		}
		left := "?"
		if done > 0 {
			left = time.Duration(float64(now.Sub(m.begun)) * (all - done) / done).Round(time.Second).String()
		}
		fmt.Fprintf(m.out, "sdr-fabric: %s: %.1f %% done, about %s left\n", m.what, 100*done/all, left)
	}
}

// say shows what isn't progress.
func (m *meter) say(format string, args ...any) {
	if m.out != nil {
		fmt.Fprintf(m.out, "sdr-fabric: %s: %s\n", m.what, fmt.Sprintf(format, args...))
	}
}

// builds says what is still built, of which no part is known, once that takes long and until done is called.
func (m *meter) builds(what string) (done func()) {
	if m.out == nil {
		return func() {}
	}
	return usage.Saying(m.out, func() string { return "sdr-fabric: " + m.what + ": building " + what })
}

// skip takes a piece out of the reckoning: it was done before.
func (m *meter) skip(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.costs[i] = 0
}
