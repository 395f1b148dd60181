// SPDX-License-Identifier: Apache-2.0

package rc

import (
	"math"

	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/internal/bitring"
	"github.com/sdr-rdma/go-sdr/units"
)

// asks, in Packet.Expected of data, asks for an acknowledgement.
const asks = 1

// receiver is the receiving end of all modes: 64 bytes, a cache line.
type receiver struct {
	cfg      *Config
	total    uint32
	expected uint32
	unacked  uint16 // packets in order since the last ACK
	echo     bool   // a packet since the last ACK carried CE
	owed     bool   // a packet carried CE that no notification has told of

	nakFor uint32        // the gap for which the last NAK was sent, plus one
	nakAt  units.Instant // when it was sent
	cnpAt  units.Instant // when the next notification may be sent
	have   bitring.Ring  // IRN: what has arrived from expected on, over a window at least
}

func newReceiver(c *Config, m transport.Message) *receiver {
	r := &receiver{cfg: c, total: m.Packets()}
	if m.Open {
		r.total = math.MaxUint32
	}
	if c.Mode != GBN {
		r.have = bitring.New(c.window(&m))
	}
	return r
}

// OnPacket answers a data packet. A trimmed one tells nothing but that it is missing.
func (r *receiver) OnPacket(now units.Instant, p *transport.Packet, out *transport.Replies) {
	if p.Kind != transport.Data || p.PSN >= r.total || p.Flags&transport.Trimmed != 0 {
		return
	}
	marked := p.Flags&transport.CE != 0
	r.echo = r.echo || marked
	r.owed = marked || r.owed && r.cfg.KeepMarks
	notify := false
	if r.owed && now >= r.cnpAt {
		r.owed = false
		r.cnpAt = now.Add(r.cfg.CNPInterval)
		if notify = !r.cfg.CNPPackets; !notify {
			*out.Add() = transport.Packet{Sent: p.Sent, PSN: p.PSN, Entropy: p.Entropy, Kind: transport.CNP}
		}
	}
	kind, answer := r.take(now, p.PSN, p.Flags&transport.Last != 0 || p.Expected == asks)
	if !answer && !notify {
		return
	}
	r.unacked = 0
	a := out.Add()
	*a = transport.Packet{Sent: p.Sent, PSN: p.PSN, Expected: r.expected, Entropy: p.Entropy, Kind: kind}
	if r.echo {
		a.Flags |= transport.Echo
		r.echo = false
	}
	if notify {
		a.Flags |= transport.Notify
	}
}

// take places a packet and says how to answer it, if at all. prompt is of one that is answered at once.
func (r *receiver) take(now units.Instant, psn uint32, prompt bool) (kind transport.Kind, answer bool) {
	switch {
	case psn < r.expected:
		return transport.Ack, true
	case psn > r.expected && r.cfg.Mode == GBN && r.refuse(now):
		return transport.Nak, true
	case psn > r.expected && r.cfg.Mode == GBN:
		return transport.Ack, false
	case psn > r.expected:
		if psn-r.expected >= r.have.Bits() {
			return transport.Ack, true // of a sender with another window: it will come again
		}
		r.have.Set(psn)
		if r.cfg.Mode == Timeout {
			return transport.Ack, true
		}
		return transport.Nak, true
	}
	r.expected++
	r.unacked++
	gap := uint32(0)
	if r.cfg.Mode != GBN {
		gap = r.have.TakeOnes(r.expected)
		r.expected += gap
	}
	return transport.Ack, gap != 0 || int(r.unacked) >= r.cfg.AckEvery || r.expected == r.total || prompt
}

// refuse reports whether a packet after a gap is answered with a NAK: once for each gap.
func (r *receiver) refuse(now units.Instant) bool {
	repeat := r.cfg.NakInterval > 0 && now >= r.nakAt.Add(r.cfg.NakInterval)
	if r.nakFor == r.expected+1 && !repeat {
		return false
	}
	r.nakFor, r.nakAt = r.expected+1, now
	return true
}

// Taken implements transport.Taker.
func (r *receiver) Taken() uint32 { return r.expected }

// Complete reports whether all of the message has arrived.
func (r *receiver) Complete() bool { return r.expected == r.total }
