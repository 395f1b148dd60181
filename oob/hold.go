// SPDX-License-Identifier: Apache-2.0

package oob

import "sync/atomic"

// maxHeld bounds the bytes of frames that wait to be taken once HoldBack was called, apart from a frame that a call waits for. Hundreds of
// small messages, or a few turns of exchanges, are less.
const maxHeld = 64 << 10

// A hold is what the reader goes by that holds the peer back: what waits to be taken, and who waits for more.
type hold struct {
	back                  atomic.Bool
	bytes                 atomic.Int64  // in blobs and messages, with their headers
	receiving, exchanging atomic.Int32  // calls that wait for a message or a blob
	look                  chan struct{} // has a token when the reader should look again
}

// HoldBack has this end read ahead no more than 64 KiB, with their 16 bytes each, of messages that no Recv and blobs that no Exchange waits for.
// The rest stays with the kernel, which holds the peer back where it would lose the connection else. It is for an application that always has a
// Recv under way, and exchanges nothing long: to any other a peer that has left or died behind what isn't read would seem to live, and a peer that
// is held back for as long as its Config.DeadHostLimit would take this end for dead. It is idempotent.
func (c *Conn) HoldBack() { c.hold.back.Store(true) }

// begin notes that one of these calls waits.
func (h *hold) begin(calls *atomic.Int32) {
	calls.Add(1)
	h.wake()
}

// end notes that one of these calls waits no longer, and has f or nothing.
func (h *hold) end(calls *atomic.Int32, f frame) {
	calls.Add(-1)
	if f.kind != 0 {
		h.bytes.Add(-f.size())
	}
	h.wake()
}

// add notes that f waits to be taken.
func (h *hold) add(f frame) { h.bytes.Add(f.size()) }

func (h *hold) wake() {
	select {
	case h.look <- struct{}{}:
	default:
	}
}

// awaitRoom waits until the frame that begins with h may be read. It reports false when the connection has ended.
func (c *Conn) awaitRoom(h header) bool {
	for c.hold.back.Load() && !c.hasRoom(h) {
		select {
		case <-c.hold.look:
		case <-c.closed:
			return false
		}
	}
	return true
}

// hasRoom reports whether the frame that begins with h is little, or waited for. Last frames always are read.
func (c *Conn) hasRoom(h header) bool {
	fits := c.hold.bytes.Load()+headerSize+int64(h.length) <= maxHeld
	switch h.kind {
	case kindBlob:
		return fits || c.hold.exchanging.Load() > 0 && len(c.blobs) == 0
	case kindMessage:
		may := len(c.messages) < maxQueued && c.queued.Load()+int64(h.length) <= c.mostQueued()
		return fits && may || c.hold.receiving.Load() > 0 && len(c.messages) == 0
	}
	return true
}
