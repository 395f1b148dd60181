// SPDX-License-Identifier: Apache-2.0

package reliability

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	infoMagic   = 0x53445243 // "SDRC"
	infoVersion = 2
	maxName     = 32 // bytes of a scheme's name
)

// Info is what the peer needs to connect: an opaque blob to be exchanged out of
// band. It says which scheme, unit and message size this side uses, and holds the
// QP's info.
func (c *Conn) Info() []byte {
	b := binary.BigEndian.AppendUint32(nil, infoMagic)
	name := c.cfg.Scheme.Name()
	b = append(b, infoVersion, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint64(b, uint64(c.cfg.Unit))
	b = binary.BigEndian.AppendUint64(b, uint64(c.cfg.MessageSize))
	return append(b, c.qp.Info()...)
}

// parse checks the peer's blob against our configuration and returns its QP's.
func (c *Conn) parse(b []byte) (sdr.Info, error) {
	if len(b) < 6 || binary.BigEndian.Uint32(b) != infoMagic {
		return nil, fmt.Errorf("%w: this is not the info of a reliable connection", sdr.ErrMismatch)
	}
	if b[4] != infoVersion {
		return nil, fmt.Errorf("%w: the peer's info has version %d, ours is %d: install the same release at both ends", sdr.ErrMismatch, b[4], infoVersion)
	}
	n := int(b[5])
	if n > maxName || len(b) < 6+n+16 {
		return nil, fmt.Errorf("%w: the peer's info is cut", sdr.ErrMismatch)
	}
	name, rest := string(b[6:6+n]), b[6+n:]
	unit, size := units.Bytes(binary.BigEndian.Uint64(rest)), units.Bytes(binary.BigEndian.Uint64(rest[8:]))
	for _, x := range []struct {
		what       string
		ours, peer any
	}{
		{"reliability scheme", schemeName(c.cfg.Scheme.Name()), schemeName(name)},
		{"repair unit in bytes, by default the MTU,", int64(c.cfg.Unit), int64(unit)},
		{"message size in bytes, by default 64 MiB or the largest message,", int64(c.cfg.MessageSize), int64(size)},
	} {
		if x.ours != x.peer {
			return nil, fmt.Errorf("%w: the %s is %v here and %v at the peer: give both ends the same", sdr.ErrMismatch, x.what, x.ours, x.peer)
		}
	}
	i := sdr.Info(rest[16:])
	addr, err := i.Addr()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.out.peer = addr
	c.mu.Unlock()
	return i, nil
}

// A schemeName may come from the network, and goes to a terminal.
type schemeName string

func (n schemeName) String() string { return strconv.Quote(string(n)) }

// Connect connects to the peer that info came from, and returns when full-size
// packets have passed in both directions. Both sides must call it. It fails with sdr.ErrMismatch where the two are configured differently, and
// with sdr.ErrBusy, which leaves the connection alone, where it, StartConnect or ConnectOver was called before. Ending ctx closes nothing: Close
// the Conn then.
func (c *Conn) Connect(ctx context.Context, info []byte) error {
	if err := c.claim(nil); err != nil {
		return err
	}
	err := c.connect(ctx, info)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		c.unclaim() // it may have been refused before it began
	}
	return err
}

// connect is Connect for who has claimed the Conn.
func (c *Conn) connect(ctx context.Context, info []byte) error {
	q, err := c.parse(info)
	if err != nil {
		return &sdr.OpError{Op: "connect", Object: "connection", Err: err}
	}
	return c.qp.Connect(ctx, q)
}

// StartConnect begins to connect and returns; Connected reports when it is done. It fails as Connect does.
func (c *Conn) StartConnect(info []byte) error {
	err := c.claim(nil)
	if err != nil {
		return err
	}
	q, err := c.parse(info)
	if err != nil {
		err = &sdr.OpError{Op: "connect", Object: "connection", Err: err}
	} else {
		err = c.qp.StartConnect(q)
	}
	if err != nil {
		c.unclaim()
	}
	return err
}

// Connected reports whether the connection is ready.
func (c *Conn) Connected() (bool, error) { return c.qp.Connected() }

// Fail fails the connection with a reason that only the caller can know, such as
// the loss of the out-of-band connection: err should wrap sdr.ErrPeerDead or
// sdr.ErrPeerClosed.
func (c *Conn) Fail(err error) { c.qp.Fail(err) }

// farewellTime bounds the time that Close spends on sending the peer the outcomes of its transfers.
const farewellTime = 300 * time.Millisecond

// Close ends the connection: unfinished transfers fail with sdr.ErrClosed when
// their memory is the user's again. What was delivered, but not acknowledged yet,
// is sent to the peer over the session, if there is one. Close is idempotent and
// takes about a second at most, as QP.Close does, which says so when a fence isn't down by then.
func (c *Conn) Close() error {
	c.mu.Lock()
	w, exchange := c.watch, c.exchange
	c.watch, c.left = nil, true
	c.mu.Unlock()
	if exchange != nil {
		exchange(errLeft)
	}
	if w != nil {
		if err := w.farewell(); err != nil {
			c.log.Debug("farewell", "err", err)
		}
	}
	return c.qp.Close()
}
