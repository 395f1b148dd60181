// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// A client measures all points of a run with one server.
type client struct {
	*params
	local   *local
	run     uint64
	addr    string // of the server
	end     *endpoint
	out     *output
	meter   *meter
	capture *capture
	// alone: the server is in this process, and has nobody to show results to.
	alone bool
	// name is this host's, server what the command line calls the other end.
	name, server string
}

func (l *local) runClient(ctx context.Context, p *params, host string, out *output, capture *capture) error {
	addr, _ := withPort(host, l.port)
	c := l.newClient(p, addr, out, capture)
	c.server = host
	return c.measure(ctx)
}

// checkPort refuses what is no port of the server's, as 0 is, which has a kernel choose one.
func (l *local) checkPort(host string) error {
	addr, own := withPort(host, l.port)
	_, port, err := net.SplitHostPort(addr)
	if host == "" || err != nil { // which Dial explains
		return nil
	}
	if n, err := net.LookupPort("tcp", port); err == nil && n != 0 {
		return nil
	}
	given := "--port " + port
	if own {
		given = host
	}
	return usage.Errorf("%s: choose the port that the server waits on, 1 to 65535, which it says", given)
}

// withPort is HOST as it is dialled, and whether it has a port of its own. An address of IPv6 may be in brackets without one.
func withPort(host string, port uint16) (addr string, own bool) {
	if name, after, err := net.SplitHostPort(host); err == nil {
		if after != "" {
			return host, true
		}
		host = name // "HOST:", as of a variable that isn't set
	}
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port))), false
}

func (l *local) newClient(p *params, addr string, out *output, capture *capture) *client {
	name, _ := os.Hostname() // "" is as good as any where there is none
	return &client{params: p, local: l, run: rand.Uint64(), addr: addr, out: out, meter: newMeter(os.Stderr), capture: capture, name: name, server: name}
}

// measure runs point after point and writes the results, also when one fails.
func (c *client) measure(ctx context.Context) (err error) {
	tasks, err := c.tasks(&c.local.sweep)
	if err != nil {
		return usage.Wrap(err)
	}
	for _, t := range tasks {
		if err := t.params.fitsMemory(t.size); err != nil {
			return usage.Wrap(err)
		}
	}
	defer func() {
		c.close()
		if werr := c.out.end(); werr != nil {
			err = errors.Join(err, werr)
		}
	}()
	for i, t := range tasks {
		if err := c.point(ctx, t, i == len(tasks)-1); err != nil {
			return err
		}
	}
	return c.local.bars.met(c.out.results)
}

func (c *client) close() {
	if c.end != nil {
		c.end.close()
		c.end = nil
	}
}

// point measures one point and writes its result.
func (c *client) point(ctx context.Context, t task, last bool) error {
	said := usage.Saying(os.Stderr, func() string { return "sdr-perf: connecting to " + c.addr })
	s, err := oob.Dial(ctx, c.addr, oob.Config{Timeout: c.Timeout})
	said()
	if err != nil {
		return err
	}
	pt := &point{params: t.params, scheme: t.scheme, size: t.size, oob: s, run: c.about(s)}
	defer pt.close()
	err = c.open(s)
	if err == nil {
		err = c.end.start(pt.params)
	}
	if err != nil {
		_ = s.CloseWithReason(err.Error())
		return err
	}
	pt.end = c.end
	if err := c.connect(ctx, pt, last); err != nil {
		pt.giveUp(ctx, err)
		return asTold(ctx, err, "server")
	}
	c.out.begin(pt)
	c.meter.point(t.scheme+" "+t.size.String(), pt.standing)
	m, err := pt.send(ctx)
	c.meter.clear()
	pt.giveUp(ctx, err)
	err = asTold(ctx, err, "server")
	failed := err
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Canceled // of which all else that it met follows
	}
	if err != nil && m.times.n == 0 {
		return err
	}
	err = errors.Join(err, c.out.add(pt, m, failed))
	if err == nil && !c.alone {
		_, err = exchange(ctx, pt.oob, reportTime, reportOf(c.out.results[len(c.out.results)-1]))
	}
	return err
}

// about says which run a point that begins now is of.
func (c *client) about(s *oob.Conn) *result.Run {
	return &result.Run{
		Start: time.Now().UTC(), Command: os.Args, Client: c.name, Server: c.server,
		ClientAddr: s.LocalAddr().String(), ServerAddr: s.RemoteAddr().String(),
	}
}

// open opens the device for the first point.
func (c *client) open(s *oob.Conn) error {
	if c.end != nil {
		return nil
	}
	at, err := c.local.place(s, sending)
	if err != nil {
		return err
	}
	return c.openAt(at)
}

func (c *client) openAt(at place) (err error) {
	c.end, err = c.local.openEndpoint(sending, at, c.capture)
	return err
}

// connect agrees with the server on the point.
func (c *client) connect(ctx context.Context, pt *point, last bool) error {
	ours := hello{
		Version: protocolVersion, Run: c.run, PathMTU: c.end.dev.Caps().PathMTU,
		Plan: pt.params, Scheme: pt.scheme, Size: pt.size, Last: last,
	}
	theirs, err := exchange(ctx, pt.oob, c.Timeout, ours)
	if err == nil {
		err = checkHello(&theirs, "server")
	}
	if err != nil {
		return err
	}
	return pt.connect(ctx, c.Timeout, pt.open(pt.mtu(ours.PathMTU, theirs.PathMTU)))
}

// mtu is what was asked for, or what both ends can.
func (p *params) mtu(ours, theirs units.Bytes) units.Bytes {
	if p.MTU != 0 {
		return p.MTU
	}
	return min(ours, theirs)
}
