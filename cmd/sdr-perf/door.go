// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/cmd/internal/devices"
	"github.com/sdr-rdma/go-sdr/oob"
)

// maxVisitors is how many may be saying hello at a time. Further ones make the oldest leave, so that silent
// ones keep nobody out.
const maxVisitors = 64

// A visitor is a connection whose client has said what it wants, for one point.
type visitor struct {
	conn  *oob.Conn
	hello hello
	err   error // it can't be served, nor any other
}

// A door lets in the connections of one client, tells others at once that the server is busy, and
// turns away who is no client.
type door struct {
	server   *server
	listener *oob.Listener
	visitors chan visitor
	wg       sync.WaitGroup

	mu    sync.Mutex
	state doorState
	run   uint64      // of the client that has been let in
	hall  []*oob.Conn // those who are saying hello, oldest first
}

// doorState is who may be let in.
type doorState uint8

const (
	// doorOpen: any client.
	doorOpen doorState = iota
	// doorHeld: nobody, as a connection of a client has been let in and is not connected yet. A client has one point at a time.
	doorHeld
	// doorServing: a connection of that client, for its next point.
	doorServing
)

var (
	errBusy    = errors.New("this server is busy with another client: wait, or start a server on another port")
	errCrowded = errors.New("too many connections don't say what they want")
)

// keep receives visitors until ctx ends.
func (d *door) keep(ctx context.Context) {
	defer d.wg.Wait()
	for {
		c, err := d.listener.AcceptGuest(ctx) // until it is let in
		if err != nil {
			d.deliver(ctx, visitor{err: err})
			return
		}
		d.enter(c)
		d.wg.Go(func() { d.receive(ctx, c) })
	}
}

// deliver hands a visitor to next.
func (d *door) deliver(ctx context.Context, v visitor) {
	select {
	case d.visitors <- v:
	case <-ctx.Done():
		if v.conn != nil {
			_ = v.conn.Close()
		}
	}
}

// next waits for the client's next connection: for the first one for ever.
func (d *door) next(ctx context.Context, first bool) (visitor, error) {
	var late <-chan time.Time
	if !first {
		late = time.After(handshakeTime)
	}
	select {
	case v := <-d.visitors:
		return v, v.err
	case <-late:
		return visitor{}, errors.New("the client did not come back for its next point: was it stopped?")
	case <-ctx.Done():
		return visitor{}, ctx.Err()
	}
}

// enter notes that c is going to say hello.
func (d *door) enter(c *oob.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.hall) == maxVisitors {
		oldest := d.hall[0]
		d.hall = slices.Delete(d.hall, 0, 1)
		d.wg.Go(func() { _ = oldest.CloseWithReason(errCrowded.Error()) })
	}
	d.hall = append(d.hall, c)
}

// receive meets a connection, and lets it in, or turns it away.
func (d *door) receive(ctx context.Context, c *oob.Conn) {
	theirs, err := d.greet(ctx, c)
	busy, err := d.admit(c, &theirs, err)
	switch {
	case ctx.Err() != nil:
		_ = c.Close()
	case busy:
		_ = c.CloseWithReason(errBusy.Error())
	case err == nil:
		c.Welcome()
		d.deliver(ctx, visitor{conn: c, hello: theirs})
	case !d.server.patient || errors.As(err, new(deviceError)) && !d.server.local.keep:
		_ = c.Close()
		d.deliver(ctx, visitor{err: err})
	default:
		_ = c.CloseWithReason(err.Error())
		d.listener.TurnedAway(c, err)
	}
}

// admit makes c the client, if all is well and there is no other.
func (d *door) admit(c *oob.Conn, theirs *hello, err error) (busy bool, _ error) {
	if err == nil && d.server.patient {
		// Who asks for the impossible hears of it here, and the door stays open for others.
		if err = d.server.refuses(theirs); err != nil {
			_, _ = exchange(context.Background(), c, refusalTime, verdict{Err: err.Error()})
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hall = slices.DeleteFunc(d.hall, func(x *oob.Conn) bool { return x == c })
	switch {
	case d.state != doorOpen && (err != nil || theirs.Run != d.run || d.state == doorHeld):
		return true, err
	case err == nil && d.state == doorOpen:
		err = d.server.open(c, false)
	}
	if err == nil {
		d.state, d.run = doorHeld, theirs.Run
	}
	return false, err
}

// connected notes that the connection that was let in last is, so that the one for the client's next point may come.
func (d *door) connected() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = doorServing
}

// leave takes back that the client of c was let in.
func (d *door) leave(c *oob.Conn, err error) {
	d.mu.Lock()
	d.state = doorOpen
	d.server.close() // the next may come to another address, or want another emulated link
	d.mu.Unlock()
	d.listener.TurnedAway(c, err)
}

// A deviceError is one of the device that the next visitor would meet, too: a server that doesn't stay ends with it.
type deviceError struct{ error }

func (e deviceError) Unwrap() error { return e.error }

// greet exchanges hellos. The device is opened for the first client.
func (d *door) greet(ctx context.Context, c *oob.Conn) (hello, error) {
	ours := hello{Version: protocolVersion}
	d.mu.Lock()
	err := d.server.open(c, d.state != doorOpen)
	if err == nil {
		ours.PathMTU = d.server.end.pathMTU()
	} else if l := d.server.local; l.addr.IsValid() || devices.Kernels(l.device) {
		err = deviceError{err}
	}
	d.mu.Unlock()
	ours.Err = text(err)
	theirs, herr := exchange(ctx, c, handshakeTime, ours)
	if err = errors.Join(err, herr); err != nil {
		return theirs, err
	}
	return theirs, checkHello(&theirs, "client")
}
