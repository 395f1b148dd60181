// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// onTrimmed handles the report that a switch has cut a packet to its headers.
func (o *outgoing) onTrimmed(e *sdr.Event) {
	m := o.messages[e.Seq]
	if m == nil || m.state != open || !m.t.onTrimmed(m, e) {
		return
	}
	o.trims = true
	o.pace.onSignOfLife()
	o.pace.trimmed(o.now, m.t.cost)
}

// onTrimmed reports it to the core, if it wants to know, and says whether it was of the latest transmission of a unit, and of
// one that the core had outstanding: anybody can repeat a report, which must not cost rate again.
func (t *sendTransfer) onTrimmed(m *sendMessage, e *sdr.Event) bool {
	if t.core == nil || t.state != running {
		return false
	}
	l := &t.o.layout
	u := scheme.Unit(e.Packet / l.packetsPerUnit)
	if m.role == sdr.RoleParity {
		u = scheme.Parity | u + scheme.Unit(m.index*l.unitsPerParity)
	} else {
		u += scheme.Unit(m.index * l.unitsPerMessage)
	}
	if int(e.Number) != t.latest(u) {
		return false // it has been repeated since
	}
	if c, ok := t.core.(scheme.TrimAware); ok {
		t.reportInjected() // the core must know what was sent before what became of it
		before := t.core.Outstanding()
		c.OnTrimmed(t.o.now, u, e.Channel)
		if u.IsData() && t.core.Outstanding() == before {
			return false
		}
		t.trimmed++
		t.recount()
	}
	t.touched = true
	return true
}

// latest is the number that the latest transmission of a unit bears.
func (t *sendTransfer) latest(u scheme.Unit) int {
	repeats := *t.repeatsLike(u)
	if u.Index() >= len(repeats) {
		return 0
	}
	return min(int(repeats[u.Index()]), 1<<t.o.qcfg.Split.FragmentBits-1)
}

// trimmed informs the controller that a queue was full, of each unit of n bytes, and as a congestion notification.
func (p *pacer) trimmed(now units.Instant, n units.Bytes) {
	p.controller.OnLoss(now, congestion.Loss{Bytes: n, Kind: congestion.LossTrim})
	if p.cutAt != now {
		p.cutAt = now
		p.controller.OnCNP(now)
	}
}
