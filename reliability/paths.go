// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"net/netip"
	"sync"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// paths is what the Conns of an Endpoint have learnt of the ways to their peers, by the address of the
// peer's device, so that a new Conn starts with it (RFC 9040, temporal sharing). What is known of a
// path is worth half after every halfLife without a word of it, and a guess from the first on. Of maxPaths paths at most
// something is known.
type paths struct {
	mu sync.Mutex
	to map[netip.Addr]*path
}

const (
	halfLife = 10 * units.Second
	maxPaths = 1024
)

// A path is what is known of one. The lock of paths guards it. While Conns send there it stays in paths.to.
type path struct {
	found congestion.Model
	at    units.Instant // when it was recorded
	conns int           // that send there
}

type pathsKey struct{}

func pathsOf(e *sdr.Endpoint) *paths {
	return e.Value(pathsKey{}, func() any { return &paths{to: map[netip.Addr]*path{}} }).(*paths)
}

// join adds a Conn to those that send to a peer, and returns what it may begin with: its share of
// what another has found, which was for that other alone. That is a guess, as the others may have nothing to send. It returns nil if there
// are too many paths.
func (p *paths) join(peer netip.Addr, now units.Instant) (*path, congestion.Model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.to[peer]
	if x == nil {
		if len(p.to) >= maxPaths && !p.forget() {
			return nil, congestion.Model{}
		}
		x = new(path)
		p.to[peer] = x
	}
	x.conns++
	m := x.found
	m.Rate = x.left(now)
	m.Guess = m.Guess || x.conns > 1 || m.Rate < x.found.Rate
	m.Rate /= units.Rate(x.conns)
	return x, m
}

// left is what of the rate that was found still counts.
func (x *path) left(now units.Instant) units.Rate {
	return x.found.Rate >> uint(min(max(now.Sub(x.at), 0)/halfLife, 63))
}

// forget makes room by what is known for longest of those to whom nobody sends; false: all are sent to.
func (p *paths) forget() bool {
	var oldest netip.Addr
	at := units.Never
	for a, x := range p.to {
		if x.conns == 0 && x.at < at {
			oldest, at = a, x.at
		}
	}
	delete(p.to, oldest)
	return at != units.Never
}

// record keeps what a Conn has found on x, which it has joined, if it has found a rate. The one that it began with, or has told before, is no
// news. A guess, of a Conn that has sent little, says nothing against more. What was found while others sent there is a guess for
// who is alone.
func (p *paths) record(x *path, now units.Instant, m congestion.Model) {
	if m.Rate <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Rate == x.found.Rate || m.Guess && m.Rate <= x.left(now) {
		return
	}
	m.Guess = m.Guess || x.conns > 1
	x.found, x.at = m, now
}

// leave takes a Conn out of those that have joined x.
func (p *paths) leave(x *path) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.conns--
}

// joinPath lets the first Send of a Conn begin with what others have found out about the path.
func (o *outgoing) joinPath() {
	if o.paths != nil || !o.peer.IsValid() {
		return
	}
	o.paths = pathsOf(o.qp.Endpoint())
	var found congestion.Model
	if o.path, found = o.paths.join(o.peer, o.now); found.Rate > 0 {
		o.pace.begin(o.cfg, found)
	}
}

// recordPath shares what has been found out.
func (o *outgoing) recordPath() {
	if o.path == nil {
		return
	}
	if m, ok := o.pace.controller.(congestion.Modeler); ok {
		o.paths.record(o.path, o.now, m.Model())
	}
}

// leavePath ends the Conn's part in it.
func (o *outgoing) leavePath() {
	if o.path != nil {
		o.paths.leave(o.path)
	}
	o.paths, o.path, o.peer = nil, nil, netip.Addr{}
}
