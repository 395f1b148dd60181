// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A watchedWindow allows a window and records the most that was ever outstanding.
type watchedWindow struct {
	congestion.Fixed
	most units.Bytes
}

func (w *watchedWindow) OnSent(_ units.Instant, _, inflight units.Bytes) {
	w.most = max(w.most, inflight)
}

// A controller that limits by a window alone is obeyed, and so is one that limits by both, with a
// configured rate and without.
func TestWindowOfControllerHolds(t *testing.T) {
	for _, c := range []struct {
		name                   string
		configured, controller units.Rate
	}{{"window alone", 0, 0}, {"with a configured rate", units.Gbit, 0}, {"with a rate of its own", 0, units.Gbit}} {
		w := &watchedWindow{Fixed: congestion.Fixed{Rate: c.controller, Window: 64 * units.KiB}}
		p := newPair(t, setup{
			net:    sim.Config{Rate: 10 * units.Gbit, Seed: 4, Link: sim.Link{Rate: units.Gbit, Queue: 3 * units.MiB, Delay: 5 * ms}},
			qp:     smallQP,
			scheme: newSR(t, sr.NACK),
			conn: reliability.Config{Rate: c.configured, Congestion: congestion.Spec{
				Name: "watched", New: func(congestion.Path) congestion.Controller { return w },
			}},
		})
		p.timed(units.MiB)
		require.LessOrEqual(t, w.most, 64*units.KiB, c.name)
		require.Greater(t, w.most, 56*units.KiB, c.name)
	}
}
