// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// Trimmed reports whether unit u, which has been sent and not been acknowledged, was trimmed and not repeated since.
func (t *Tracker) Trimmed(u int) bool {
	return u >= t.window.base && u < t.window.next && !t.window.isAcked(u) && t.window.at(u).trimmed
}

// OnTrimmed implements scheme.TrimAware: the latest transmission of unit u, on a channel, has been cut to its headers by a
// switch. It is lost for certain, so NextLost returns it at once. Anything else that the network
// says is none of ours, and changes nothing.
func (t *Tracker) OnTrimmed(_ units.Instant, u scheme.Unit, channel int) {
	if !u.IsData() || u.Index() >= t.window.next || t.window.isAcked(u.Index()) {
		return
	}
	state := t.window.at(u.Index())
	if state.fate != inFlight || int(state.channel) != channel {
		return
	}
	state.fate, state.blamed, state.kind, state.trimmed = lost, state.channel, Queue, true
	t.count(Queue)
	t.outstanding--
	t.lost.Push(uint32(u))
}
