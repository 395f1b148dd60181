// SPDX-License-Identifier: Apache-2.0

package oob

import (
	"bufio"
	"io"
)

// maxGuest bounds the bytes of frames that are read before the application welcomes the peer, of whom it may know nothing but an address
// until then. More stays with the kernel, which holds the peer back, so that what an honest one sends early is late and not lost.
const maxGuest = 16 << 10

// readLoop queues what arrives until the stream ends. It closes the socket: once it is done
// nothing can arrive, and end has seen to what was to be sent.
func (c *Conn) readLoop() {
	defer close(c.readerDone)
	r := bufio.NewReader(c.nc)
	var blobs, messages uint32
	guest := 0
	for {
		h, err := readHeader(r, c.cfg.maxBlob())
		if guest += headerSize + int(h.length); guest > maxGuest && !c.awaitWelcome() {
			break
		}
		if err == nil && !c.awaitRoom(h) {
			break
		}
		var f frame
		if err == nil {
			f, err = readPayload(r, h)
		}
		if err == nil {
			err = c.take(f, &blobs, &messages)
		}
		if err != nil {
			err = lost(err)
			c.end(err, farewell(err))
			break
		}
	}
	_, _ = io.Copy(io.Discard, r) // until the deadline set by end; say explains why
	hangUp(c.nc)
}

// awaitWelcome waits until the peer is welcome. It reports false when the connection has ended.
func (c *Conn) awaitWelcome() bool {
	select {
	case <-c.welcome:
		return true
	default:
	}
	select {
	case <-c.welcome:
		return true
	case <-c.closed:
		return false
	}
}

// take puts an arrived frame where Exchange or Recv finds it. It never blocks.
func (c *Conn) take(f frame, blobs, messages *uint32) error {
	switch f.kind {
	case kindBlob:
		*blobs++
		if *blobs <= c.exchanges.Load()+1 { // the peer can't have begun the next without this end's blob of the one before
			c.hold.add(f)
			select {
			case c.blobs <- f:
				return nil
			default:
			}
		}
		return violation("exchange %d before this end has begun exchange %d", f.number, f.number-1)
	case kindMessage:
		if *messages++; f.number != *messages {
			return violation("message %d where message %d was due", f.number, *messages)
		}
		return c.takeMessage(f)
	case kindBye:
		return ErrPeerClosed
	}
	return violation("unexpected %v frame", f.kind)
}

// mostQueued is how many bytes of messages may wait for Recv.
func (c *Conn) mostQueued() int64 { return int64(maxQueuedBlobs * c.cfg.maxBlob()) }

func (c *Conn) takeMessage(f frame) error {
	if c.queued.Add(int64(len(f.payload))) > c.mostQueued() {
		return unreceived{violation("more than %d bytes of messages wait to be received here", c.mostQueued())}
	}
	c.hold.add(f)
	select {
	case c.messages <- f:
		return nil
	default:
		return unreceived{violation("more than %d messages wait to be received here", maxQueued)}
	}
}
