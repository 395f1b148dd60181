// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/units"
)

// handshakeTime bounds the server's waits before it knows the client's --timeout, and for the next
// point of a run.
const handshakeTime = 10 * units.Second

const (
	// connectTime bounds the server's wait for the client's verdict, whatever its --timeout …
	connectTime = 30 * units.Second
	// … and refusalTime that for one that is refused to hear it.
	refusalTime = units.Second
)

// A server serves one run.
type server struct {
	own     *params        // its own options …
	set     *pflag.FlagSet // … of which these were given
	local   *local
	capture *capture
	// patient: it waits for the next client when one turns out to be none before it is connected.
	patient bool
	// end is opened by the door, at the address that a client came to, or before. The door's mutex guards
	// it until a client is let in.
	end *endpoint
	at  place
	// says is where the server tells what goes on, nil for nowhere.
	says  io.Writer
	visit visit
}

// A turnedAway is why a client isn't served.
type turnedAway struct{ error }

func (e turnedAway) Unwrap() error { return e.error }

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
	if given := givenHere(set); len(given) > 0 { // as perftest's servers take them; or else a HOST was forgotten
		fmt.Fprintf(os.Stderr, "sdr-perf: this is the server, as there is no HOST: it measures nothing by itself, and turns away clients whose %s differs\n", strings.Join(given, " or "))
	}
	fmt.Fprintf(os.Stderr, "waiting for a client on %v\n", listener.Addr())
	book := ledger{begun: time.Now()}
	for {
		s := &server{own: p, set: set, local: l, capture: capture, patient: true, says: os.Stdout}
		err := s.serve(ctx, listener)
		s.visit.conclude(s.says, err)
		book.enter(&s.visit, err)
		if l.keep && ctx.Err() != nil {
			book.conclude(s.says)
		}
		if !l.keep || ctx.Err() != nil {
			return err
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "sdr-perf: %v\n", err)
		}
	}
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
		last, err := s.next(ctx, d, first)
		if err != nil || last {
			return err
		}
	}
}

// next serves the next point. Who can't be served at all is turned away, and the next may come.
func (s *server) next(ctx context.Context, d *door, first bool) (last bool, err error) {
	for {
		v, err := d.next(ctx, first)
		if err != nil {
			return true, err
		}
		last, err := s.point(ctx, d, v)
		if !first || !s.patient || !errors.As(err, new(turnedAway)) || ctx.Err() != nil {
			return last, err
		}
		d.leave(v.conn, err)
	}
}

func (s *server) close() {
	if s.end != nil {
		s.end.close()
		s.end = nil
	}
}

// point serves one point. last says that no other follows.
func (s *server) point(ctx context.Context, d *door, v visitor) (last bool, err error) {
	pt := &point{oob: v.conn, end: s.end, params: v.hello.Plan, scheme: v.hello.Scheme, size: v.hello.Size}
	defer pt.close()
	defer func() { pt.giveUp(ctx, err) }()
	if err := s.connect(ctx, pt, &v.hello); err != nil {
		return true, turnedAway{asTold(ctx, err, "client")}
	}
	d.connected()
	if s.says == nil {
		return v.hello.Last, pt.receive(ctx)
	}
	if s.visit.points == 0 {
		s.visit.begin(v.conn.RemoteAddr())
		fmt.Fprintf(s.says, "client %v; %s; %s\n", v.conn.RemoteAddr(), pt.Link.describe(), pt.underWay(nil))
	}
	if err = pt.receive(ctx); err == nil {
		err = s.show(ctx, pt)
	} else {
		s.visit.breakOff(pt.came(), pt.size)
	}
	return v.hello.Last, asTold(ctx, err, "client")
}

// reportTime is how long the server waits for the client's view of a point.
const reportTime = 2 * units.Second

// A report is a result as the client tells it.
type report struct {
	Result *result.Result `json:"result,omitempty"`
}

// reportOf is what a client tells of a result: its command line is nobody else's business, and the server shows no course.
func reportOf(r *result.Result) report {
	told := *r
	told.Run, told.Congestion.Course = nil, nil
	return report{&told}
}

// show prints what the client has measured.
func (s *server) show(ctx context.Context, pt *point) error {
	theirs, err := exchange(ctx, pt.oob, reportTime, report{})
	if err != nil {
		s.visit.breakOff(pt.came(), pt.size)
	}
	if err != nil || theirs.Result == nil {
		return err
	}
	columns := columnsOf(pt.params)
	if s.visit.add(theirs.Result, pt.size); s.visit.points == 1 {
		_ = writeRow(s.says, columns, func(c column) string { return c.head }) // the row would fail too
	}
	return writeRow(s.says, columns, func(c column) string { return printable(c.text(theirs.Result)) })
}

// connect checks what the client wants and connects.
func (s *server) connect(ctx context.Context, pt *point, theirs *hello) error {
	err := s.refuses(theirs)
	if theirs.Plan == nil {
		pt.params = s.own
	}
	if err == nil {
		err = s.end.start(pt.params)
	}
	if err == nil {
		err = pt.open(pt.mtu(s.end.dev.Caps().PathMTU, theirs.PathMTU))
	}
	limit := min(max(pt.Timeout, minTimeout), connectTime)
	if err != nil {
		limit = refusalTime
	}
	return pt.connect(ctx, limit, err)
}

// refuses says what is wrong with what a client wants, as far as that is known without a device.
func (s *server) refuses(h *hello) error {
	if err := checkPlan(h); err != nil {
		return err
	}
	if err := s.own.differences(s.set, h.Plan); err != nil {
		return err
	}
	return h.Plan.fitsMemory(h.Size)
}

// open opens the device where c came to. While nobody is served another visitor may have come to another
// address.
func (s *server) open(c *oob.Conn, serving bool) error {
	if s.end != nil && (serving || !s.patient) {
		return nil
	}
	at, err := s.local.place(c, receiving)
	if err != nil {
		return err
	}
	if s.end != nil && s.at == at {
		return nil
	}
	s.close()
	s.at = at
	s.end, err = s.local.openEndpoint(receiving, at, s.capture)
	return err
}
