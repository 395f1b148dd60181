// SPDX-License-Identifier: Apache-2.0

package rc

import (
	"cmp"
	"math"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Mode is the way in which losses are repaired.
type Mode uint8

// The modes.
const (
	GBN Mode = iota
	IRN
	Timeout
)

// String is the mode's name in lower case.
func (m Mode) String() string {
	return [...]string{"gbn", "irn", "timeout"}[min(m, Timeout)]
}

// Config is what both ends of all flows have in common. The zero value is GBN without congestion
// control.
type Config struct {
	Mode Mode
	// Congestion makes the controller of each flow; nil: none.
	Congestion congestion.Factory
	// Window bounds what is in flight, in bytes of payload. 0: with IRN one bandwidth-delay
	// product (line rate times base round trip, plus one packet), with Timeout 512 packets, otherwise no limit.
	Window units.Bytes
	// AckEvery is how many packets in order one ACK answers, at most 65535; 0: 1. The last packet of a message, the last that a
	// window of fewer packets has room for, a duplicate and a gap are answered at once.
	AckEvery int
	// NakInterval is after how long GBN's receiver repeats its NAK for a gap that is still open; 0:
	// never, as IBTA 9.7.5.2.8 has it. What seven NAKs in a row have asked for waits for RTO.
	NakInterval units.Duration
	// NakDelay is how long GBN's sender takes from a NAK to the first repeated packet.
	NakDelay units.Duration
	// Repace lets a packet that waits for its pace start as the controller's rate of each moment asks, as DCQCN's sender in htsim does.
	// Otherwise a start that has been set stays, as in HPCC's model of NICs.
	Repace bool
	// RTO is the timeout without progress; 0: IRN 320 µs, the others 4 ms, two base round trips where that is more.
	RTO units.Duration
	// RTOLow is IRN's timeout while fewer than LowFlight packets are in flight; 0: 100 µs, two base round trips where that is more, and 3.
	RTOLow    units.Duration
	LowFlight int
	// Reorder is how many packets later than a missing one must have arrived before IRN takes it for
	// lost: one more than this. 0 is the published IRN, to which a network that sprays looks lossy.
	Reorder int
	// CNPInterval is the least time between two congestion notifications of one flow; 0: each
	// marked packet is notified.
	CNPInterval units.Duration
	// KeepMarks has a mark that comes within the interval told when it is over, with the next packet, as the paper of DCQCN has it
	// ("if any packet that arrives within that time window was marked") and htsim's receiver does. Otherwise the next marked packet is told, as in
	// HPCC's model.
	KeepMarks bool
	// CNPPackets sends notifications as packets of their own; otherwise they ride on the ACK, which
	// is then sent at once.
	CNPPackets bool
}

// The defaults, of the public artefacts that the papers' baselines come from (conweave-ns3).
const (
	defaultRTO       = 4 * units.Millisecond
	defaultRTOHigh   = 320 * units.Microsecond
	defaultRTOLow    = 100 * units.Microsecond
	defaultLowFlight = 3
	// timeoutWindow is ConnectX-7's transmit window, which Liu et al. give to timeouts alone, too ("Themis", section 6.2).
	timeoutWindow = 512
	// maxWindow bounds the bitmaps of a flow to 128 KiB each.
	maxWindow = 1 << 20
)

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	if c.Mode > Timeout {
		return operr.New("configure", "transport", "mode %d: choose gbn, irn or timeout", c.Mode)
	}
	if c.Window < 0 || c.AckEvery < 0 || c.LowFlight < 0 || c.Reorder < 0 {
		return operr.New("configure", "transport", "window of %d bytes, an ACK every %d packets, low flight %d, reordering %d: must not be negative (0: the default)", int64(c.Window), c.AckEvery, c.LowFlight, c.Reorder)
	}
	if c.AckEvery > math.MaxUint16 {
		return operr.New("configure", "transport", "an ACK every %d packets: must be at most %d", c.AckEvery, math.MaxUint16)
	}
	for _, d := range []struct {
		name string
		v    units.Duration
	}{{"NAK interval", c.NakInterval}, {"NAK delay", c.NakDelay}, {"RTO", c.RTO}, {"low RTO", c.RTOLow}, {"CNP interval", c.CNPInterval}} {
		if d.v < 0 || d.v > 60*units.Second {
			return operr.New("configure", "transport", "%s of %d ns: must be between 0 and 60 s", d.name, int64(d.v))
		}
	}
	return nil
}

// Factory returns what makes the ends of each message. c must be valid and not change any more.
func (c *Config) Factory() transport.Factory {
	d := *c
	d.AckEvery = cmp.Or(d.AckEvery, 1)
	d.LowFlight = cmp.Or(d.LowFlight, defaultLowFlight)
	return func(m transport.Message) (transport.Sender, transport.Receiver) {
		return newSender(&d, m), newReceiver(&d, m)
	}
}

// timeouts are RTO and RTOLow of a message. The defaults are for data centres: no answer can be there before a round trip is over.
func (c *Config) timeouts(m *transport.Message) (rto, low units.Duration) {
	rto = defaultRTO
	if c.Mode == IRN {
		rto = defaultRTOHigh
	}
	return cmp.Or(c.RTO, max(rto, 2*m.BaseRTT)), cmp.Or(c.RTOLow, max(defaultRTOLow, 2*m.BaseRTT))
}

// window is in packets: no limit is the whole message, or 2^31 of a connection.
func (c *Config) window(m *transport.Message) uint32 {
	w, most := c.Window, m.Packets()
	if m.Open {
		most = math.MaxInt32
	}
	if w == 0 {
		if c.Mode == GBN {
			return most
		}
		if c.Mode == Timeout {
			return min(most, timeoutWindow)
		}
		w = m.LineRate.Bytes(m.BaseRTT) + m.MTU
	}
	return uint32(min(max((w+m.MTU-1)/m.MTU, 1), units.Bytes(most), maxWindow))
}
