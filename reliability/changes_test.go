// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// A changing controller's limits change by themselves at an instant.
type changing struct {
	congestion.Fixed
	at units.Instant
}

func (c changing) Next() units.Instant { return c.at }

// A sender that waits for its turn, or for room in the window, looks again when its controller may allow
// more, and after a pause where that is over: a virtual clock would stand still.
func TestPacerWakesForItsController(t *testing.T) {
	const ms = units.Instant(units.Millisecond)
	p := pacer{unit: units.KiB, found: units.Mbit, nextAt: 100 * ms, pause: units.Microsecond, controller: changing{at: 7 * ms}}
	require.Equal(t, 7*ms, p.next(ms, units.KiB))
	p.controller = changing{at: 0}
	require.Equal(t, ms.Add(units.Microsecond), p.next(ms, units.KiB))
	p.controller = changing{at: units.Never}
	require.Equal(t, 100*ms, p.next(ms, units.KiB))
	full := pacer{unit: units.KiB, allowed: units.KiB, unanswered: flight{units: 1, bytes: units.KiB}, trickleAt: 9 * ms, controller: changing{at: 3 * ms}}
	require.Equal(t, 3*ms, full.next(ms, units.KiB))
}

// A hearing controller keeps what it was told last.
type hearing struct {
	congestion.Fixed
	ack congestion.Ack
}

func (h *hearing) OnAck(_ units.Instant, a *congestion.Ack) { h.ack = *a }

// What was repeated too early, and arrived before the repeat, makes the round trip look as short as that is old. That is no round trip, whether a ping
// has told the least one or, as long as none was answered, what frames answered has.
func TestRepeatIsNoRoundTrip(t *testing.T) {
	for _, ping := range []units.Duration{0, 25 * units.Millisecond} {
		var heard hearing
		p := pacer{unit: units.KiB, controller: &heard, minRTT: ping}
		now := units.Instant(units.Second)
		p.spend(now, &sending{n: 2, cost: units.KiB}, 2*units.KiB)
		now = now.Add(26 * units.Millisecond)
		p.answered = 26 * units.Millisecond
		p.delivered(now, units.KiB, flight{units: 1, bytes: units.KiB})
		require.Equal(t, 26*units.Millisecond, heard.ack.RTT)
		p.spend(now, &sending{n: 1, cost: units.KiB}, units.KiB) // again
		p.answered = 0
		p.delivered(now.Add(3*units.Millisecond), units.KiB, flight{})
		require.Zero(t, heard.ack.RTT, "ping %v", ping)
	}
}

// Of what a found rate and window allow no more is on its way than the path and the receiver hold: one
// that isn't running would lose the rest.
func TestFoundWindowFitsTheReceiver(t *testing.T) {
	p := pacer{unit: units.KiB, found: 8 * units.Gbit, allowed: 64 * units.MiB, minRTT: units.Millisecond}
	require.Equal(t, 64*1024, p.units())
	p.peerWindow = units.MiB
	require.InDelta(t, 1024+1000_000/1024, p.units(), 1)
	p.allowed = 100 * units.KiB
	require.Equal(t, 100, p.units())
}

// TestShortUnitsOpenTheWindow: without a rate short units fill the controller's window as whole ones do, and the receiver's memory when
// it is open, though all that a pass sent is answered at once. If what is unanswered counted in whole units, they would never fill half of the
// window, and it would not grow.
func TestShortUnitsOpenTheWindow(t *testing.T) {
	const unit, receiver = 4 * units.KiB, 2 * units.MiB
	for _, cost := range []units.Bytes{unit, 1071, 142} {
		p := pacer{peerWindow: receiver}
		p.unit, p.controller = unit, congestion.Auto()(congestion.Path{MTU: unit})
		now, most := units.Instant(0), 0
		for range 5000 {
			_, p.allowed = p.controller.Limits(now)
			n := p.budget(now, cost)
			require.Positive(t, n)
			most = max(most, n)
			all := flight{units: n, bytes: units.Bytes(n) * cost}
			p.spend(now, &sending{n: n, cost: cost}, all.bytes)
			now = now.Add(100 * units.Microsecond)
			for range n {
				all.remove(flight{units: 1, bytes: cost})
				p.onSignOfLife()
				p.delivered(now, cost, all)
			}
		}
		require.Equal(t, min(maxBudget, int(receiver/unit)), most, cost)
	}
}
