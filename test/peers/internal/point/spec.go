// SPDX-License-Identifier: Apache-2.0

// Package point measures one transport at one size: a sender and a receiver, each
// a process of its own on its host, which take turns over a pipe beside the link.
package point

import (
	"net/netip"
	"time"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Spec says what to measure. Both processes get the same, but for Side.
type Spec struct {
	Side          transport.Side
	Transport     string
	Sender        netip.Addr
	Receiver      netip.Addr
	MTU           int        // of the link
	LinkRate      units.Rate // 0: the transport isn't told
	Size          int        // of a transfer, in bytes
	Cold          bool       // each on a new connection
	Warmups       int        // transfers of WarmupSize before, on the one connection
	WarmupSize    int
	Limit         time.Duration // a transfer is stopped after it
	Settle        time.Duration // rest before each transfer, so that the receiver's readiness is known
	Seed          uint64        // of the content
	Favoured      bool          // in processor time, over other processes of the machine
	ReceiverReady int           // transfers that the receiver is ready for in advance
}

// A Report is a line that the sender prints. After each with Took it reads a line:
// More for another transfer, anything else for the end.
type Report struct {
	Took    time.Duration `json:"took,omitempty"` // of a measured transfer
	Stopped bool          `json:"stopped,omitempty"`
	Err     string        `json:"err,omitempty"`
	Version string        `json:"version,omitempty"`
	Notes   string        `json:"notes,omitempty"`
}

// More asks the sender for another transfer.
const More = "more"

// sizeOf is the size of transfer i, of which the first are warm-ups.
func (s *Spec) sizeOf(i int) int {
	if i < s.warmups() {
		return s.WarmupSize
	}
	return s.Size
}

func (s *Spec) warmups() int {
	if s.Cold {
		return 0
	}
	return s.Warmups
}

func (s *Spec) options(exchange func([]byte) ([]byte, error)) transport.Options {
	o := transport.Options{
		Side: s.Side, Local: s.Sender, Remote: s.Receiver, MTU: s.MTU, LinkRate: s.LinkRate,
		Buffer: max(s.Size, s.WarmupSize), Exchange: exchange,
	}
	if s.Side == transport.Receiving {
		o.Local, o.Remote = o.Remote, o.Local
	}
	return o
}
