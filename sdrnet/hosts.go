// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
)

// hosts are devices that are open, each for all connections at one place: those of a Listener, or those that this process has dialled. Its
// methods may be called from any goroutine.
type hosts struct {
	mu  sync.Mutex
	all map[place]*host // +checklocks:mu
	// keepsOne: the only one stays open without connections. Of a Listener's no more may: a peer can choose among this host's addresses, which
	// may be millions.
	keepsOne bool // +checklocks:mu
}

// dialled are the devices of connections that this process has dialled. That they share them costs less than devices of their own would, of which
// each has workers that poll, and take the processors from each other; and what one connection has learned of a path the next one knows.
var dialled hosts

// A place is where a device is, and what else all its connections must agree in.
type place struct {
	device  string
	address netip.Addr
	port    uint16
	// link is what is emulated: that is a link for each Config that has one.
	link   *linkemu.Config
	logger *slog.Logger
	// namespace is the network namespace of the thread that opens the device, as a container engine's may be another than the process's.
	namespace string
}

// get returns the host for cfg near an address, opened if there is none that works. ports are those of openHost. Who calls it gives it up by release.
func (s *hosts) get(cfg *Config, near netip.Addr, ports ...uint16) (*host, error) {
	at := place{device: cfg.Device, address: near, port: cmp.Or(cfg.UDPPort, ports[0]), logger: cfg.Logger}
	if cfg.Addr.IsValid() {
		at.address = cfg.Addr // whichever the peer has dialled
	}
	if !cfg.Link.ChangesNothing() {
		at.link = &cfg.Link
	}
	at.namespace, _ = os.Readlink("/proc/thread-self/ns/net") // without /proc all threads count as in one

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.sweep(); err != nil {
		cfg.Logger.Warn("closing a device", "err", err)
	}
	h := s.all[at]
	if h == nil {
		var err error
		if h, err = openHost(cfg, near, ports...); err != nil {
			return nil, err
		}
		if s.all == nil {
			s.all = make(map[place]*host)
		}
		s.all[at] = h
	}
	h.users++
	return h, nil
}

// release gives h up, which closes it if nobody else uses it and it needn't stay.
func (s *hosts) release(h *host) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch h.users--; {
	case h.users > 0:
		return nil
	case h.left:
		return h.close()
	default:
		return s.sweep()
	}
}

// keepNone closes the one that has stayed open without connections, and has none stay from now on.
func (s *hosts) keepNone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepsOne = false
	return s.sweep()
}

// sweep closes the devices that no connection uses, but for one that stays, and leaves those that don't work to the connections that still use
// them; mu is held.
func (s *hosts) sweep() (err error) {
	for at, h := range s.all {
		works := h.works()
		if works && (h.users > 0 || s.keepsOne && len(s.all) == 1) {
			continue
		}
		delete(s.all, at)
		if h.left = h.users > 0; !h.left {
			err = errors.Join(err, h.close())
		}
	}
	return err
}
