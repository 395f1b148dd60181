// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Stats counts what a Conn did.
type Stats struct {
	// Units are the schemes' counters, in repair units of UnitBytes. Once a transfer has ended
	// well, Spurious is exact for it, on every device and whatever the network did: the repeats
	// less those that it took, which the receiver counts. Of a unit it took the repeats up to
	// the one that the receiver had whole first; of one that the first transmission or
	// decoding placed, none. So a repeat that overtook what it repeats was needed, and one
	// that got lost after its unit was in place was not. Of unfinished transfers, failed ones or those of a
	// scheme.Partial, and with an immediate split without fragment bits, it counts what the sender
	// found out by itself, which may be less. A unit that is repeated more often than
	// the fragment field has numbers for (15 times by default) counts as if it was in place
	// after so many.
	Units     scheme.Stats
	UnitBytes units.Bytes
	// Arrived is the user data of this side's sends that is known to be in place at the receiver, of transfers under
	// way and of those that have ended.
	Arrived units.Bytes
	// QP counts packets and control datagrams.
	QP sdr.QPStats
	// Rate is the rate of user data at which sends are paced, 0 for none;
	// Window how many units may be outstanding.
	Rate   units.Rate
	Window int
	// Congestion is the name of the congestion control, and Path what it has found out,
	// where it reports them.
	Congestion string
	Path       congestion.Model
	// Violations counts what the peer said that no loss, repetition or reordering can
	// explain.
	Violations uint64
	// Sends and Recvs are unfinished transfers.
	Sends, Recvs int
}

// stats are the core's counters and, once the receiver has reported how many repeats were needed, how many
// did not take.
func (t *sendTransfer) stats() scheme.Stats {
	s := t.core.Stats()
	if t.state >= closing && t.err == nil && t.counted {
		s.Spurious = s.Retransmitted - min(s.Retransmitted, t.needed)
	}
	return s
}

// Stats is a snapshot of the counters.
func (c *Conn) Stats() Stats {
	c.mu.Lock()
	s := Stats{
		Units: c.finished, UnitBytes: c.cfg.Unit, Rate: c.out.pace.rate(), Window: c.out.pace.units(),
		Arrived: c.out.arrived, Violations: c.violations, Sends: len(c.out.transfers), Recvs: len(c.in.transfers) - c.in.withdrawn,
	}
	c.out.stats(&s.Units)
	c.in.stats(&s.Units)
	s.Congestion = c.cfg.Congestion.Name
	if m, ok := c.out.pace.controller.(congestion.Modeler); ok {
		s.Path = m.Model()
	}
	c.mu.Unlock()
	s.QP = c.qp.Stats()
	return s
}
