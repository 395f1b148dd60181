// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Stats counts what a Conn did.
type Stats struct {
	// Units are the schemes' counters, in repair units of UnitBytes.
	Units     scheme.Stats
	UnitBytes units.Bytes
	// QP counts packets and control datagrams.
	QP sdr.QPStats
	// Rate is the rate of user data at which sends are paced, 0 for none;
	// Window how many units may be outstanding.
	Rate   units.Rate
	Window int
	// Lies counts frames of the peer that claimed what can't be.
	Lies uint64
	// Sends and Recvs are transfers on their way.
	Sends, Recvs int
}

// Stats is a snapshot of the counters.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	s.Units = c.total
	for _, t := range c.sends {
		if t.core != nil {
			s.Units.Add(t.core.Stats())
		}
	}
	for _, t := range c.recvs {
		if t.core != nil {
			s.Units.Add(t.core.Stats())
		}
	}
	s.UnitBytes, s.Rate, s.Window = c.cfg.Unit, c.pace.rate(), c.pace.window()
	s.Sends, s.Recvs = len(c.sends), len(c.recvs)
	c.mu.Unlock()
	s.QP = c.qp.Stats()
	return s
}
