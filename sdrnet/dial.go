// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/oob"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
)

// DefaultPort is the TCP port of addresses that name none.
const DefaultPort = "18515"

// withPort is addr, with DefaultPort if it has no port.
func withPort(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return net.JoinHostPort(strings.Trim(addr, "[]"), DefaultPort)
	case port == "":
		return net.JoinHostPort(host, DefaultPort)
	}
	return addr
}

// Dial connects to the Listener at the TCP address addr, "host:port" or "host". cfg may be nil. Ending ctx
// ends the attempt; without a deadline in it each of its steps is bounded by 10 s. A Listener that has no room, or that couldn't wait because this
// host is too busy, is dialled again after pauses of up to 2 s, until ctx ends, and without a deadline for 10 s. Where the peer closes the connection before Dial has
// returned, its error wraps sdr.ErrPeerClosed and syscall.ECONNRESET.
//
// Dial returns once the Listener has said that the connection stands there, too, and is for its Accept to return. One of release 0.1 says
// nothing, and on a busy host or a long path may give its place to another peer after Dial has returned: then calls of the Conn fail with an
// *oob.PeerError that is Busy, and whoever wants it dials again.
//
// Connections that this process has dialled share a device where they have the same local address, Config.Device, UDPPort and Logger, and no emulated
// link; all connections of a Listener at one local address share one, too. A device on user-space RoCEv2 has a UDP port, 16 sockets to send on, and
// for each of sdr.DefaultWorkers workers three file descriptors and two goroutines, of which one keeps a thread. It is closed with the last of its
// connections, and if it fails, so do all. Each connection has a descriptor and 4 goroutines besides, so that some 1000 fit the usual limit of 1024
// descriptors (ulimit -n). Where all connect to all, as ranks of a collective do, one device serves both ways with package reliability ("Many peers").
func Dial(ctx context.Context, addr string, cfg *Config) (*Conn, error) {
	c, err := again(ctx, func() (*Conn, error) { return dial(ctx, addr, cfg) })
	err = endedBy(ctx, operr.Wrap("dial", addr, err))
	if leftInOrder(err) { // io.EOF would be the end of a connection, and the caller has none
		return nil, also(err, syscall.ECONNRESET)
	}
	return c, translate(err, false)
}

// Who has no room now is dialled again, after pauses of random length, of which the longest are leastPause and then doubles of it up to mostPause.
// Without a deadline that goes on for busyTime.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	busyTime   = 10 * time.Second
)

// again dials until the peer has room, or ctx ends. Peers that all start at once, as the ranks of a job do, or on a busy host, would else
// have to do that themselves, as with TCP they needn't: a listener that has no room drops a SYN, which the kernel sends again.
func again(ctx context.Context, dial func() (*Conn, error)) (*Conn, error) {
	var until <-chan time.Time
	var told error
	givenUp := func() error { return fmt.Errorf("%w (given up: %w)", told, context.Cause(ctx)) }
	for longest := leastPause; ; longest = min(2*longest, mostPause) {
		c, err := dial()
		switch {
		case mayPass(err):
			told = err
		case told != nil && saysEnd(ctx, err): // it isn't for this attempt alone that the time was too short
			return nil, givenUp()
		default:
			return c, err
		}
		if _, ok := ctx.Deadline(); !ok && until == nil {
			until = time.After(busyTime)
		}
		select {
		case <-time.After(pause(longest)):
		case <-until:
			return nil, err
		case <-ctx.Done():
			return nil, givenUp()
		}
	}
}

// pause is a random time from half of longest up to that, so that not all who were turned away together come back together.
func pause(longest time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return longest/2 + time.Duration(binary.NativeEndian.Uint64(b[:])%uint64(longest/2))
}

// mayPass reports whether err is that the peer has no room now, or hasn't waited for what this end was to say, whose host may be busy.
func mayPass(err error) bool {
	var told *oob.PeerError
	return errors.As(err, &told) && (told.Busy() || told.Code == oob.CodeTimeout) || errors.Is(err, oob.ErrTooSlow)
}

func dial(ctx context.Context, addr string, cfg *Config) (*Conn, error) {
	c, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	s, err := oob.Dial(ctx, withPort(addr), oob.Config{TLS: c.TLS, Logger: c.Logger})
	if err != nil {
		return nil, err
	}
	near := ipOf(s.LocalAddr())
	h, err := dialled.get(c, near, userroce.AnyPort)
	if err != nil {
		s.Leave(ctx, err.Error())
		return nil, err
	}
	theirs, err := exchangeHello(ctx, s, c, h)
	if err == nil && theirs.kernel && h.port != roce.UDPPort && c.UDPPort == 0 {
		// The peer's device sends to RoCEv2's own port and to no other.
		err = dialled.release(h)
		h = nil
		if err == nil {
			h, err = dialled.get(c, near, roce.UDPPort)
		}
	}
	if err != nil {
		s.Leave(ctx, err.Error())
		if h != nil {
			err = errors.Join(err, dialled.release(h))
		}
		return nil, err
	}
	conn, err := newConn(ctx, s, c, h, theirs, false)
	if err != nil {
		return nil, errors.Join(err, dialled.release(h))
	}
	conn.release = func() error { return dialled.release(h) }
	return conn, nil
}
