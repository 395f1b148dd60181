// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A spec tells a process which side of all flows it is. Both get the same, but for Side.
type spec struct {
	Side  transport.Side
	MTU   int
	Flows []flow
}

// A flow is one connection, each with addresses of its own.
type flow struct {
	Transport        string // one of package transport's
	Start            time.Duration
	RTT              time.Duration // of its way without the queue
	Congestion       string        // what follows is sdr's alone
	Payload          units.Bytes
	Told             units.Rate // the configured rate; 0: none
	ECN              bool
	Sender, Receiver netip.Addr
}

// transferSize is what a flow sends at once, with some of them under way.
const transferSize = 512 * units.KiB

// placesPerFlow is for its caller, its worker, and what Go itself runs.
const placesPerFlow = 4

// setUp bounds how long an end takes to connect all flows.
const setUp = 30 * time.Second

// serveEnd is one side of all flows: it connects them, says so, and runs them from a line on stdin to its end. Then the
// sender prints what it counted.
func serveEnd(ctx context.Context, text []byte, turns net.Conn) error {
	var s spec
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	// Each flow stands for a process of its own, in which a thread that sleeps in the kernel keeps its place to run Go code at. Where flows have
	// to share two of them, the runtime looks every 20 µs for one to take away, and whoever wakes waits for another.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), placesPerFlow*len(s.Flows)))
	e := &end{spec: &s, out: json.NewEncoder(turns), in: json.NewDecoder(turns)}
	if err := e.connect(ctx); err != nil {
		return err
	}
	fmt.Println(ready)
	return e.serve(ctx, os.Stdin, os.Stdout)
}

const ready = "ready"

// An end is one side of all flows.
type end struct {
	*spec
	out   *json.Encoder
	in    *json.Decoder
	flows []transport.Pourer
	told  []told
}

// told is what a flow's sender counted: until startUp after its start, and until its end.
type told struct {
	StartUp transport.Poured `json:"start_up"`
	All     transport.Poured `json:"all"`
}

// startUp is how long a flow may take to find its rate; what it costs until then is not held against it.
const startUp = 2 * time.Second

// exchange gives the other side a blob and returns its own.
func (e *end) exchange(ours []byte) (theirs []byte, err error) {
	if err := e.out.Encode(ours); err != nil {
		return nil, errors.New("the other end is gone")
	}
	if err := e.in.Decode(&theirs); err != nil {
		return nil, errors.New("the other end is gone")
	}
	return theirs, nil
}

// meet waits for the other side to come to the same point.
func (e *end) meet() error {
	_, err := e.exchange(nil)
	return err
}

// connect makes all flows, in the same order on both sides.
func (e *end) connect(ctx context.Context) error {
	for i := range e.Flows {
		p, err := e.open(&e.Flows[i])
		if err != nil {
			return fmt.Errorf("flow %d: %w", i, err)
		}
		e.flows = append(e.flows, p)
	}
	if err := e.meet(); err != nil { // the receivers listen
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setUp)
	defer cancel()
	for i, f := range e.flows {
		if err := f.Connect(ctx); err != nil {
			return fmt.Errorf("flow %d: %w", i, err)
		}
	}
	return e.meet()
}

func (e *end) open(f *flow) (transport.Pourer, error) {
	o := transport.Options{
		Side: e.Side, Local: f.Sender, Remote: f.Receiver, Buffer: int(transferSize), MTU: e.MTU, LinkRate: f.Told,
		Payload: f.Payload, Congestion: f.Congestion, ECN: f.ECN, Exchange: e.exchange,
	}
	if e.Side == transport.Receiving {
		o.Local, o.Remote = o.Remote, o.Local
	}
	x, err := transport.New(f.Transport, o)
	if err != nil {
		return nil, err
	}
	p, ok := x.(transport.Pourer)
	if !ok {
		return nil, fmt.Errorf("%s can't send without an end", f.Transport)
	}
	return p, nil
}

// serve runs all flows. Receivers begin at once, senders when they are told to.
func (e *end) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := bufio.NewScanner(in)
	if e.Side == transport.Sending && !lines.Scan() {
		return nil
	}
	e.told = make([]told, len(e.flows))
	var all sync.WaitGroup
	for i, f := range e.flows {
		all.Go(func() {
			if err := e.one(ctx, &e.Flows[i], f, &e.told[i]); err != nil {
				cancel(fmt.Errorf("flow %d: %w", i, err))
			}
		})
	}
	go func() {
		for lines.Scan() {
		}
		cancel(context.Canceled)
	}()
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if e.Side == transport.Receiving {
		return nil
	}
	for i, f := range e.flows {
		e.told[i].All = f.Poured()
	}
	return json.NewEncoder(out).Encode(e.told)
}

// one runs a flow until ctx ends.
func (e *end) one(ctx context.Context, f *flow, p transport.Pourer, t *told) error {
	if e.Side == transport.Receiving {
		return p.Drain(ctx)
	}
	select {
	case <-time.After(f.Start):
	case <-ctx.Done():
		return nil
	}
	var counting sync.WaitGroup
	counting.Go(func() {
		select {
		case <-time.After(startUp):
			t.StartUp = p.Poured()
		case <-ctx.Done():
		}
	})
	defer counting.Wait()
	return p.Pour(ctx)
}
