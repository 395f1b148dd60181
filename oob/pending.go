// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// maxPending bounds the connections that are shaking hands or wait for Accept, so that they can't exhaust memory or
	// descriptors. One source may have them all while no other wants any: many programs of one host, or behind one address, may start at once.
	maxPending = 256
	// handshakeLimit bounds the handshake that a Listener shakes: a peer has nothing to think about.
	handshakeLimit = 3 * units.Second
)

// errEvicted is why a peer was let go that would else have kept others out.
var errEvicted = errors.New("too many connections shake hands or wait to be accepted: connect again later")

// A pendingConn is a connection that Accept has not returned.
type pendingConn struct {
	nc      net.Conn // under TLS
	source  netip.Prefix
	greeted bool  // the handshake is done
	conn    *Conn // since then; of the goroutine that serves it
	cancel  context.CancelCauseFunc
}

// pendingConns are all of a Listener, oldest first. Who doesn't shake hands can be told from who does, and
// makes room first. Nothing else can be known about a peer but its address, so who has the most
// connections makes room next.
type pendingConns struct {
	tell bool // who has to go is told so here: under TLS nothing can be said before a handshake, which costs more than turning away may
	mu   sync.Mutex
	all  []*pendingConn // +checklocks:mu
}

// SourceOf is what a host can be assumed to have but one of: of a *net.TCPAddr the IPv4 address, or the IPv6 network of 64 bits.
func SourceOf(a net.Addr) netip.Prefix {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := t.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits)
	return p
}

// admit adds p, for which another may have to go, and reports false when there is no room.
func (s *pendingConns) admit(p *pendingConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < maxPending {
		s.all = append(s.all, p)
		return true
	}
	victim := s.crowding(p.source)
	if victim == nil {
		return false
	}
	s.drop(victim)
	s.all = append(s.all, p)
	if s.tell {
		turnAway(victim.nc) // before the goroutine that serves it closes the connection
	}
	victim.cancel(errEvicted)
	if s.tell || !victim.greeted { // else the goroutine that serves it, and waits for nothing, can say so over TLS
		victim.nc.Close()
	}
	return true
}

// crowding finds who makes room for a peer from source; mu is held.
func (s *pendingConns) crowding(source netip.Prefix) *pendingConn {
	busiest, most, of := netip.Prefix{}, 0, make(map[netip.Prefix]int)
	for _, p := range s.all {
		of[p.source]++
	}
	for _, p := range s.all {
		if k := of[p.source]; k > most {
			busiest, most = p.source, k
		}
	}
	if p := s.silent(busiest); p != nil {
		return p
	}
	if most > of[source]+1 {
		return s.oldest(func(p *pendingConn) bool { return p.source == busiest })
	}
	return s.oldest(func(p *pendingConn) bool { return !p.greeted })
}

// silent is the oldest connection from source that is still shaking hands; mu is held.
func (s *pendingConns) silent(source netip.Prefix) *pendingConn {
	return s.oldest(func(p *pendingConn) bool { return p.source == source && !p.greeted })
}

// oldest is the first connection that matches, or nil; mu is held.
func (s *pendingConns) oldest(match func(*pendingConn) bool) *pendingConn {
	if i := slices.IndexFunc(s.all, match); i >= 0 {
		return s.all[i]
	}
	return nil
}

// drop takes p out, and reports whether it was there; mu is held.
func (s *pendingConns) drop(p *pendingConn) bool {
	before := len(s.all)
	s.all = slices.DeleteFunc(s.all, func(x *pendingConn) bool { return x == p })
	return len(s.all) < before
}

// greet notes that p has shaken hands.
func (s *pendingConns) greet(p *pendingConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.greeted = true
}

// remove forgets p, and reports whether it hadn't been evicted.
func (s *pendingConns) remove(p *pendingConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(p)
}
