// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// EndpointStats counts what all QPs of an Endpoint have in common.
type EndpointStats struct {
	// Device are the device's counters.
	Device backend.Stats
	// Packets counts data packets that set or repeated a bit; Duplicates
	// those that repeated one; Late completions of closed messages or other
	// generations; BadLength packets whose length doesn't fit.
	Packets, Duplicates, Late, BadLength uint64
	// Repairs counts packets recorded in the repair map, Invalid completions
	// that name nothing.
	Repairs, Invalid uint64
	// Foreign counts control datagrams of no connection of ours.
	Foreign uint64
	// Lent counts the turns of callers who ran a worker, while they waited (QP.Await) or to post (QP.Step).
	Lent uint64
	// HandedOver counts batches of packets that a worker posted for a QP that is at home at another one.
	HandedOver uint64
	// QPs is the number of open QPs.
	QPs int
}

// Stats is a snapshot of the counters.
func (e *Endpoint) Stats() EndpointStats {
	s := EndpointStats{Device: e.dev.Stats(), Foreign: e.foreign.Load()}
	if n, err := e.engine.Counts(); err == nil {
		s.Packets, s.Duplicates, s.Late, s.BadLength = n.Packets, n.Duplicates, n.Stale, n.Length
		s.Repairs, s.Invalid = n.Repairs, n.Invalid
	}
	for _, w := range e.workers {
		s.Lent += w.turn.callerTurns.Load()
		s.HandedOver += w.handover.posted.Load()
	}
	e.mu.Lock()
	s.QPs = len(e.qps)
	e.mu.Unlock()
	return s
}

// ControlStats counts what went over the control channel of one QP.
type ControlStats struct {
	DatagramsSent, DatagramsReceived uint64
	BytesSent, BytesReceived         uint64
	// Repeated counts state frames (docs/wire.md) sent again after their copies.
	Repeated uint64
	// Malformed counts datagrams that could not be read, Violations frames that
	// claimed what can't be.
	Malformed, Violations uint64
	// Duplicates counts frames that must arrive (Port.SendReliable) and had arrived before.
	Duplicates uint64
}

// QPStats counts what one QP did.
type QPStats struct {
	// PacketsPosted counts packets handed to the device; Probes and Fragments
	// those of them that have no payload.
	PacketsPosted, Probes, Fragments uint64
	// MessagesSent counts messages whose END was sent, MessagesReceived those whose fence is down.
	MessagesSent, MessagesReceived uint64
	// ControlErrors counts control datagrams that the device refused, as when its queue was full: of Control.DatagramsSent
	// those that were not sent.
	ControlErrors uint64
	// Congestions counts congestion notifications, where the device reports them.
	Congestions uint64
	// Trimmed counts packets of open messages that switches have cut to their headers, where the device reports them.
	Trimmed uint64
	// Control counts control datagrams.
	Control ControlStats
	// SRTT and MinRTT are round-trip times: smoothed, and the least of the last half to whole minute.
	SRTT, MinRTT units.Duration
	// InFlight is the number of packets posted and not completed.
	InFlight int
	// MaxMessageRate is how many messages per second the late-packet rule
	// allows on devices without a full-sequence check; 0: no limit.
	MaxMessageRate float64
}

// Stats is a snapshot of the counters.
func (q *QP) Stats() QPStats {
	q.lock()
	defer q.mu.Unlock()
	s := q.stats
	if q.sess != nil {
		s.Control = ControlStats(q.sess.Stats)
		s.SRTT, _, s.MinRTT = q.sess.RTT()
	}
	for _, ch := range q.chans {
		s.InFlight += int(ch.posted - ch.done)
	}
	if !q.caps.FullSequence {
		s.MaxMessageRate = float64(q.tableCfg.Slots*q.tableCfg.Generations) / q.msl().Seconds()
	}
	return s
}
