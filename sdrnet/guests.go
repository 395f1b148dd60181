// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
)

const (
	// maxConnecting bounds the peers whose connections are being made, and those that wait for Accept.
	maxConnecting = 64
	// maxGuests bounds the peers whose connections are being made or wait for that.
	maxGuests = 256
	// patience is how long a connection may take to be made while others wait for its place.
	patience = 3 * time.Second
)

var errCrowd = errors.New("too many peers connect at once, in all or of this host: connect again later")

// A guest is a peer whose connection is being made, in its place, or waits for one.
type guest struct {
	s      *oob.Conn
	source netip.Prefix
	placed bool
	at     time.Time     // since when it has its place
	out    chan struct{} // closed when it has to go
}

// guests are a Listener's. Who waits gets the next place that is free. Before that, somebody has to go for it: of the source that has most of
// the places, if that is more than the own one has, the peer that has been connecting for longest, or whoever has been at it for too long.
// So silent peers, and a host that connects again and again, keep nobody out, and peers of one host that could all go on don't throw each
// other out.
type guests struct {
	// places has a token for each peer that has a place and each connection that waits for Accept.
	places chan struct{}

	mu  sync.Mutex
	all []*guest // the oldest first; +checklocks:mu
}

// add takes s in, for which another may have to go, and returns nil when there is no room.
func (g *guests) add(s *oob.Conn) *guest {
	x := &guest{s: s, source: oob.SourceOf(s.RemoteAddr()), out: make(chan struct{})}
	g.mu.Lock()
	var victim *guest
	if len(g.all) >= maxGuests {
		if victim = g.crowding(x, func(*guest) bool { return true }); victim == nil {
			g.mu.Unlock()
			return nil
		}
		g.drop(victim)
	}
	g.all = append(g.all, x)
	g.mu.Unlock()
	victim.leave()
	return x
}

// place waits until x has a place, and returns false if it has to go or ctx ends before.
func (g *guests) place(ctx context.Context, x *guest) bool {
	for {
		select {
		case g.places <- struct{}{}:
			return g.settle(x)
		default:
		}
		if g.takeOver(x) {
			return true
		}
		again := time.NewTimer(patience / 8)
		select {
		case g.places <- struct{}{}:
			again.Stop()
			return g.settle(x)
		case <-again.C:
		case <-x.out:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// settle gives x the place whose token its goroutine has, unless x has to go.
func (g *guests) settle(x *guest) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.all, x) {
		<-g.places
		return false
	}
	x.placed, x.at = true, time.Now()
	return true
}

// takeOver gives x the place of one that has to go for it, if there is any.
func (g *guests) takeOver(x *guest) bool {
	g.mu.Lock()
	if !slices.Contains(g.all, x) {
		g.mu.Unlock()
		return false
	}
	victim := g.crowding(x, func(y *guest) bool { return y.placed })
	if victim == nil {
		victim = g.overdue()
	}
	if victim != nil {
		g.drop(victim)
		x.placed, x.at = true, time.Now()
	}
	g.mu.Unlock()
	victim.leave()
	return victim != nil
}

// crowding is the oldest of those that count and are of the source that has most of them, if x's has at least two fewer; mu is held.
func (g *guests) crowding(x *guest, counts func(*guest) bool) (victim *guest) {
	of, most := make(map[netip.Prefix]int), 0
	for _, y := range g.all {
		if counts(y) {
			of[y.source]++
		}
	}
	for _, y := range g.all {
		if counts(y) && of[y.source] > most {
			victim, most = y, of[y.source]
		}
	}
	if most <= of[x.source]+1 {
		return nil
	}
	return victim
}

// overdue is the guest that has had its place for longest, if that is too long; mu is held.
func (g *guests) overdue() (victim *guest) {
	for _, y := range g.all {
		if y.placed && time.Since(y.at) > patience && (victim == nil || y.at.Before(victim.at)) {
			victim = y
		}
	}
	return victim
}

// drop takes x out; mu is held.
func (g *guests) drop(x *guest) {
	g.all = slices.DeleteFunc(g.all, func(y *guest) bool { return y == x })
}

// leave ends the stay of a guest that was taken out; nil is nobody.
func (x *guest) leave() {
	if x != nil {
		close(x.out)
		_ = x.s.TurnAway(errCrowd.Error())
	}
}

// ended ends x's stay, because its connection is made or can't be, and reports whether it still has a place.
func (g *guests) ended(x *guest) (place bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.all, x) {
		return false // another has it
	}
	g.drop(x)
	return x.placed
}
