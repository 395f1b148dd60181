// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/sdr-rdma/go-sdr/oob"
)

// A visitor is a connection whose client has said what it wants, for one point.
type visitor struct {
	conn  *oob.Conn
	hello hello
	err   error // it can't be served, nor any other
}

// A door lets in the connections of one client, and tells others at once that the server is busy.
type door struct {
	server   *server
	listener *oob.Listener
	visitors chan visitor
	run      uint64 // the client's, 0 before the first hello
}

var errBusy = errors.New("this server is busy with another client: wait, or start a server on another port")

// keep receives visitors until ctx ends.
func (d *door) keep(ctx context.Context) {
	for {
		v := d.receive(ctx)
		if v.conn == nil && v.err == nil {
			continue
		}
		select {
		case d.visitors <- v:
		case <-ctx.Done():
			if v.conn != nil {
				_ = v.conn.Close()
			}
			return
		}
	}
}

// next waits for the client's next connection: for the first one for ever.
func (d *door) next(ctx context.Context, first bool) (visitor, error) {
	var late <-chan time.Time
	if !first {
		late = time.After(time.Duration(handshakeTime))
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

// receive meets the next connection. It returns no visitor when that was turned away.
func (d *door) receive(ctx context.Context) visitor {
	c, err := d.listener.Accept(ctx)
	if err != nil {
		return visitor{err: err}
	}
	theirs, err := d.greet(ctx, c)
	switch {
	case d.run != 0 && (err != nil || theirs.Run != d.run):
		_ = c.CloseWithReason(errBusy.Error())
		return visitor{}
	case err != nil:
		_ = c.Close()
		return visitor{err: err}
	}
	d.run = theirs.Run
	return visitor{conn: c, hello: theirs}
}

// greet exchanges hellos. The device is opened for the first client.
func (d *door) greet(ctx context.Context, c *oob.Conn) (hello, error) {
	ours := hello{Version: protocolVersion}
	err := d.server.open(c)
	if err == nil {
		ours.PathMTU = d.server.end.own.Caps().PathMTU
	}
	ours.Err = text(err)
	theirs, herr := exchange(ctx, c, handshakeTime, ours)
	if err = errors.Join(err, herr); err != nil {
		return theirs, err
	}
	return theirs, checkHello(&theirs, "client")
}
