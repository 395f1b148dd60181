// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

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
	end     *endpoint
	run     uint64 // the client's, 0 before the first point
	capture *capture
}

func (l *local) runServer(ctx context.Context, p *params, set *pflag.FlagSet, capture *capture) error {
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

// serve serves the points of one client and returns.
func (s *server) serve(ctx context.Context, l *oob.Listener) error {
	defer func() {
		if s.end != nil {
			s.end.close()
		}
	}()
	for {
		c, err := s.accept(ctx, l)
		if err != nil {
			return err
		}
		last, err := s.point(ctx, c)
		if err == errBusy {
			continue
		}
		if err != nil || last {
			return err
		}
	}
}

// accept waits for the first point for ever, for the next ones not.
func (s *server) accept(ctx context.Context, l *oob.Listener) (*oob.Conn, error) {
	if s.run == 0 {
		return l.Accept(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(handshakeTime))
	defer cancel()
	c, err := l.Accept(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, errors.New("the client did not come back for its next point: was it stopped?")
	}
	return c, err
}

var errBusy = errors.New("this server is busy with another client: wait, or start a server on another port")

// point serves one point. last says that no other follows.
func (s *server) point(ctx context.Context, c *oob.Conn) (last bool, err error) {
	pt := &point{oob: c}
	defer pt.close()
	ours := hello{Version: protocolVersion}
	if err = s.open(c); err == nil {
		ours.PathMTU = s.end.dev.Caps().PathMTU
	}
	ours.Err = text(err)
	theirs, herr := exchange(ctx, c, handshakeTime, ours)
	if err = errors.Join(err, herr); err != nil {
		return true, err
	}
	if s.run != 0 && theirs.Run != s.run {
		_ = c.CloseWithReason(errBusy.Error())
		return false, errBusy
	}
	if err := checkHello(&theirs, "client"); err != nil {
		return true, err
	}
	s.run = theirs.Run
	pt.end, pt.params, pt.scheme, pt.size = s.end, theirs.Plan, theirs.Scheme, theirs.Size
	if err := s.connect(ctx, pt, &theirs); err != nil {
		return true, err
	}
	return theirs.Last, pt.receive(ctx)
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
	addr, port, err := s.local.rdmaAddr(c, receiving)
	if err != nil {
		return err
	}
	s.end, err = s.local.openEndpoint(receiving, addr, port, s.capture)
	return err
}
