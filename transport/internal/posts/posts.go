// SPDX-License-Identifier: Apache-2.0

// Package posts knows which packets of a connection belong to which of its messages: each begins with a packet of its own.
package posts

import "github.com/sdr-rdma/go-sdr/units"

// Posts are the messages of a connection that have not been acknowledged.
type Posts struct {
	mtu   units.Bytes
	from  uint32 // packets before it have been released
	end   uint32 // behind the last packet
	bytes units.Bytes
	all   []post
}

type post struct {
	end  uint32      // behind its last packet
	upTo units.Bytes // payload before that
	last uint16      // payload of its last packet
}

// New makes an empty list.
func New(mtu units.Bytes) *Posts { return &Posts{mtu: mtu} }

// Add adds a message, and returns the number behind its last packet.
func (p *Posts) Add(size units.Bytes) (end uint32) {
	packets := (size + p.mtu - 1) / p.mtu
	p.end += uint32(packets)
	p.bytes += size
	p.all = append(p.all, post{p.end, p.bytes, uint16(size - (packets-1)*p.mtu)})
	return p.end
}

// of is the message of packet n, which has not been released.
func (p *Posts) of(n uint32) *post {
	i := 0
	for p.all[i].end <= n {
		i++
	}
	return &p.all[i]
}

// Payload is that of packet n, which has been added and not released; last says whether it ends its message.
func (p *Posts) Payload(n uint32) (size uint16, last bool) {
	m := p.of(n)
	if n+1 == m.end {
		return m.last, true
	}
	return uint16(p.mtu), false
}

// UpTo is the payload of all packets before n; 0 where they have been released and a message ends behind them.
func (p *Posts) UpTo(n uint32) units.Bytes {
	switch {
	case n >= p.end:
		return p.bytes
	case n < p.from:
		return 0
	}
	m := p.of(n)
	return m.upTo - units.Bytes(m.last) - units.Bytes(m.end-1-n)*p.mtu
}

// Release forgets messages that end before packet n.
func (p *Posts) Release(n uint32) {
	done := 0
	for done < len(p.all) && p.all[done].end <= n {
		p.from = p.all[done].end
		done++
	}
	if done > 0 {
		p.all = p.all[:copy(p.all, p.all[done:])]
	}
}
