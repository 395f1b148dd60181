// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// handshakeTime bounds the server's waits before it knows the client's --timeout, and for the next
// point of a run.
const handshakeTime = 10 * units.Second

// A server serves one run.
type server struct {
	own     *params        // its own options …
	set     *pflag.FlagSet // … of which these were given
	local   *local
	end     *endpoint // opened by the door for the first client
	capture *capture
}

func (l *local) runServer(ctx context.Context, p *params, set *pflag.FlagSet, capture *capture) error {
	if err := l.tryDevice(p); err != nil {
		return err
	}
	host := ""
	if l.addr.IsValid() {
		host = l.addr.String()
	}
	listener, err := oob.Listen(ctx, net.JoinHostPort(host, strconv.Itoa(int(l.port))), oob.Config{Logger: l.log})
	if err != nil {
		return err
	}
	defer listener.Close()
	fmt.Fprintf(os.Stderr, "waiting for a client on %v\n", listener.Addr())
	return (&server{own: p, set: set, local: l, capture: capture}).serve(ctx, listener)
}

// tryDevice shows mistakes about a kernel's device before a client comes. Others can be opened only
// when it has come, because their address is the one that it came to.
func (l *local) tryDevice(p *params) error {
	if !devices.Kernels(l.device) {
		return nil
	}
	e, err := l.openEndpoint(receiving, place{addr: l.addr}, nil)
	if err != nil {
		return err
	}
	defer e.close()
	return e.checkMTU(p.MTU)
}

// serve serves the points of one client and returns.
func (s *server) serve(ctx context.Context, l *oob.Listener) error {
	ctx, stop := context.WithCancel(ctx)
	d := &door{server: s, listener: l, visitors: make(chan visitor)}
	var wg sync.WaitGroup
	wg.Go(func() { d.keep(ctx) })
	defer func() {
		stop()
		wg.Wait()
		s.close()
	}()
	for first := true; ; first = false {
		v, err := d.next(ctx, first)
		if err != nil {
			return err
		}
		last, err := s.point(ctx, v)
		if err != nil || last {
			return err
		}
	}
}

func (s *server) close() {
	if s.end != nil {
		s.end.close()
		s.end = nil
	}
}

// point serves one point. last says that no other follows.
func (s *server) point(ctx context.Context, v visitor) (last bool, err error) {
	pt := &point{oob: v.conn, end: s.end, params: v.hello.Plan, scheme: v.hello.Scheme, size: v.hello.Size}
	defer pt.close()
	if err := s.connect(ctx, pt, &v.hello); err != nil {
		return true, err
	}
	return v.hello.Last, pt.receive(ctx)
}

// connect checks what the client wants and connects.
func (s *server) connect(ctx context.Context, pt *point, theirs *hello) error {
	err := checkPlan(theirs)
	if theirs.Plan == nil {
		pt.params = s.own
	}
	if err == nil {
		err = s.own.differences(s.set, theirs.Plan)
	}
	if err == nil {
		err = s.end.start(pt.params)
	}
	if err == nil {
		err = pt.open(pt.mtu(s.end.dev.Caps().PathMTU, theirs.PathMTU))
	}
	return pt.connect(ctx, err)
}

// open opens the device for the first point.
func (s *server) open(c *oob.Conn) error {
	if s.end != nil {
		return nil
	}
	at, err := s.local.place(c, receiving)
	if err != nil {
		return err
	}
	s.end, err = s.local.openEndpoint(receiving, at, s.capture)
	return err
}
