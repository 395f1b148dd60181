// SPDX-License-Identifier: Apache-2.0

// Package transport moves a buffer from one host to another by the transports
// that are compared, each behind the same interface, and times it alike: from the
// sender's call to the receiver's word that all bytes are there.
package transport

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
)

// A Side is which end of the link this process is.
type Side int

// The sides.
const (
	Sending Side = iota
	Receiving
)

// Options are what an Endpoint is made from.
type Options struct {
	Side          Side
	Local, Remote netip.Addr
	// Buffer is the size of the largest transfer in bytes.
	Buffer int
	// MTU is that of the link, in bytes of IP packets.
	MTU int
	// LinkRate is the rate of the link in bits per second of IP packets; 0 if
	// the transport has to find it. Only sdr wants to know.
	LinkRate units.Rate
	// Payload of a packet, Congestion, as congestion.Parse takes it, and whether data is capable of
	// ECN: sdr's alone. Their zero values are 4 KiB, the default and no.
	Payload    units.Bytes
	Congestion string
	ECN        bool
	// Exchange gives the peer a blob and returns its own, beside the link.
	Exchange func([]byte) ([]byte, error)
}

// An Endpoint is one side of a transport.
type Endpoint interface {
	// Buffer is where transfers are sent from and received to, from its start.
	Buffer() []byte
	// Connect makes a new connection in place of the one before, if any. Both
	// sides must call it.
	Connect(context.Context) error
	// Expect makes the receiving side ready for one more transfer of n bytes.
	Expect(n int) error
	// Receive waits for the next transfer, of n bytes.
	Receive(ctx context.Context, n int) error
	// Send sends n bytes and returns the time to their acknowledgement.
	Send(ctx context.Context, n int) (time.Duration, error)
	// Version is that of the software; Notes tell about the last connection,
	// for people. Both may be empty.
	Version() string
	Notes() string
	Close() error
}

// New makes the endpoint of a transport: one of Names.
func New(name string, o Options) (Endpoint, error) {
	switch name {
	case "adaptive", "sr-nack":
		return newSDR(name, o)
	case "bbr", "cubic":
		return newTCP(name, o)
	case "quic":
		return newQUIC(o)
	case "srt":
		return newSRT(o)
	}
	return nil, fmt.Errorf("unknown transport %q", name)
}

// Missing says why a transport can't be measured on this machine, nil if it can.
func Missing(name string) error {
	switch name {
	case "bbr", "cubic":
		return congestionControl(name)
	case "srt":
		return toolsForSRT()
	}
	return nil
}

// port is where all receivers but sdr's listen.
const port = 7000
