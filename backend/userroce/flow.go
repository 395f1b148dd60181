// SPDX-License-Identifier: Apache-2.0

package userroce

import "github.com/sdr-rdma/go-sdr/roce"

// flowCache keeps the ICRC's header parts of recent senders. A peer has as many flows as it has send
// sockets.
type flowCache struct {
	current *flow
	flows   [maxSendSockets]flow // by low bits of port and address
}

// flow is one source with the ICRC's start for its packets.
type flow struct {
	from endpoint
	roce.Flow
	valid bool
	// seed is the ICRC's start for packets of n bytes, the length that was seen last.
	n    int
	seed roce.Seed
}

// use makes the flow of a received datagram current.
func (c *flowCache) use(name *sockName, d *Device) {
	from := name.endpoint(d.ipv6)
	f := &c.flows[(uint64(from.port)^from.ip.lo^from.ip.lo>>6)%uint64(len(c.flows))]
	if f.from != from || !f.valid {
		x, err := roce.NewFlow(from.addrPort(d.ipv6), d.Addr())
		*f = flow{from: from, Flow: x, valid: err == nil}
	}
	c.current = f
}

// seedFor returns the ICRC's start for a packet of n bytes.
func (f *flow) seedFor(n int) roce.Seed {
	if f.n != n {
		f.n, f.seed = n, f.Seed(n)
	}
	return f.seed
}
