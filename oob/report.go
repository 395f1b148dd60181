// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"net"
	"sync"
	"time"
)

// A Listener logs at most logBurst lines at once, and one each logEvery in the long run: peers can make it
// turn them away as often as they like.
const (
	logBurst = 10
	logEvery = time.Second
)

// A reporter tells of peers with which there is no connection.
type reporter struct {
	cfg Config

	mu     sync.Mutex
	full   time.Time // when logBurst lines may be logged at once again; +checklocks:mu
	silent int       // lines left out since the last one; +checklocks:mu
}

// rejected tells of a peer that was turned away, or that has left by itself, and why.
func (r *reporter) rejected(peer net.Addr, err error) {
	what := "oob: turned a peer away"
	if hasLeft(err) {
		what = "oob: a peer left while connecting"
	}
	r.tell(what, "peer", peer, err)
}

// stuck tells why nobody can be accepted at an address now.
func (r *reporter) stuck(at net.Addr, err error) {
	r.tell("oob: can't accept peers", "address", at, err)
}

func (r *reporter) tell(what, whose string, addr net.Addr, err error) {
	if r.cfg.Logger != nil {
		if ok, silent := r.mayLog(time.Now()); ok && silent > 0 {
			r.cfg.Logger.Warn(what, whose, addr, "err", err, "others", silent)
		} else if ok {
			r.cfg.Logger.Warn(what, whose, addr, "err", err)
		}
	}
	if r.cfg.OnReject != nil {
		r.cfg.OnReject(addr, err)
	}
}

// mayLog reports whether a line may be logged, and how many were not since the last one.
func (r *reporter) mayLog(now time.Time) (ok bool, silent int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full.Before(now) {
		r.full = now
	}
	if r.full.Sub(now) > (logBurst-1)*logEvery {
		r.silent++
		return false, 0
	}
	r.full = r.full.Add(logEvery)
	silent, r.silent = r.silent, 0
	return true, silent
}
