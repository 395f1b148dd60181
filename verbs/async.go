// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// EventType is the kind of an asynchronous event (enum ib_event_type).
type EventType uint32

// Asynchronous events.
const (
	EventCQError          EventType = 0
	EventQPFatal          EventType = 1
	EventQPRequestError   EventType = 2
	EventQPAccessError    EventType = 3
	EventCommEstablished  EventType = 4
	EventSQDrained        EventType = 5
	EventPathMigrated     EventType = 6
	EventPathMigrateError EventType = 7
	EventDeviceFatal      EventType = 8 // the last one: the device is gone or has failed for good
	EventPortActive       EventType = 9
	EventPortError        EventType = 10
	EventLIDChange        EventType = 11
	EventPKeyChange       EventType = 12
	EventSMChange         EventType = 13
	EventSRQError         EventType = 14
	EventSRQLimitReached  EventType = 15
	EventQPLastWQEReached EventType = 16
	EventClientReregister EventType = 17
	EventGIDChange        EventType = 18
)

// eventWQFatal is of work queues, which this package doesn't make.
const eventWQFatal EventType = 19

func (t EventType) String() string {
	return name(t, []string{"CQ error", "QP fatal error", "QP request error", "QP access error", "communication established",
		"send queue drained", "path migrated", "path migration error", "device fatal error", "port active", "port error",
		"LID change", "P_Key change", "SM change", "SRQ error", "SRQ limit reached", "last WQE reached", "client reregister",
		"GID change", "WQ fatal error", "device speed change"}, "EventType")
}

// AsyncEvent is something that happened to the device or to one of its objects.
type AsyncEvent struct {
	Type EventType
	// CQ, QP or SRQ is the object concerned, if it is one of these.
	CQ  *CQ
	QP  *QP
	SRQ *SRQ
	// Port is the port concerned by a port event.
	Port int
}

func (e AsyncEvent) String() string {
	switch {
	case e.CQ != nil:
		return fmt.Sprintf("%v on %v", e.Type, e.CQ)
	case e.QP != nil:
		return fmt.Sprintf("%v on %v", e.Type, e.QP)
	case e.SRQ != nil:
		return fmt.Sprintf("%v on %v", e.Type, e.SRQ)
	case e.Port != 0:
		return fmt.Sprintf("%v on port %d", e.Type, e.Port)
	}
	return e.Type.String()
}

// asyncEventSize is sizeof(struct ib_uverbs_async_event_desc).
const asyncEventSize = 16

// WaitEvent waits for the next asynchronous event. It sleeps in the netpoller and ends with
// ctx's error when ctx ends, with ErrClosed when the device is closed, with ErrRemoved when it was
// removed, after EventDeviceFatal. Several goroutines may wait; each event goes to one of them.
func (c *Context) WaitEvent(ctx context.Context) (AsyncEvent, error) {
	var b [asyncEventSize]byte
	for {
		if e, ok := c.takeEvent(); ok {
			return e, nil
		}
		n, err := c.events.wait(ctx, b[:], func() bool { return c.hasEvent() || c.lastEvent.Load() })
		if err != nil {
			return AsyncEvent{}, wrapEvent(c, err)
		}
		if e, ok := c.event(b[:n]); ok {
			return e, nil
		}
		if c.lastEvent.Load() && !c.hasEvent() {
			return AsyncEvent{}, wrapEvent(c, errRemoved{})
		}
	}
}

// PollEvent returns an asynchronous event if there is one.
func (c *Context) PollEvent() (e AsyncEvent, ok bool, err error) {
	if e, ok := c.takeEvent(); ok {
		return e, true, nil
	}
	var b [asyncEventSize]byte
	for {
		n, err := c.events.poll(b[:])
		if err != nil || n == 0 {
			return AsyncEvent{}, false, wrapEvent(c, err)
		}
		if e, ok := c.event(b[:n]); ok {
			return e, true, nil
		}
	}
}

// maxPending bounds the events that Poll read and nobody fetched; the oldest go first.
const maxPending = 256

// drainEvents reads all events, so that CQs learn of their overflow, and keeps them for WaitEvent
// and PollEvent.
func (c *Context) drainEvents() {
	var b [asyncEventSize]byte
	for {
		n, err := c.events.poll(b[:])
		if err != nil || n == 0 {
			return
		}
		e, ok := c.event(b[:n])
		if !ok {
			continue
		}
		c.tree.Lock()
		if len(c.pending) == maxPending {
			c.pending = append(c.pending[:0], c.pending[1:]...)
		}
		c.pending = append(c.pending, e)
		c.tree.Unlock()
		c.events.wake()
	}
}

func (c *Context) hasEvent() bool {
	c.tree.Lock()
	defer c.tree.Unlock()
	return len(c.pending) > 0
}

func (c *Context) takeEvent() (AsyncEvent, bool) {
	c.tree.Lock()
	defer c.tree.Unlock()
	if len(c.pending) == 0 {
		return AsyncEvent{}, false
	}
	e := c.pending[0]
	c.pending = append(c.pending[:0], c.pending[1:]...)
	return e, true
}

func wrapEvent(c *Context, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return wrap("read event", c.info.Name, c.judgeEvents(err))
}

// event decodes a descriptor; false for events of objects that are gone by now.
func (c *Context) event(b []byte) (AsyncEvent, bool) {
	if len(b) < asyncEventSize {
		return AsyncEvent{}, false
	}
	element := binary.NativeEndian.Uint64(b)
	e := AsyncEvent{Type: EventType(binary.NativeEndian.Uint32(b[8:]))}
	switch e.Type {
	case EventCQError:
		if e.CQ, _ = c.lookup(element).(*CQ); e.CQ != nil {
			e.CQ.overflowed.Store(true)
		}
		return e, e.CQ != nil
	case EventQPFatal, EventQPRequestError, EventQPAccessError, EventCommEstablished, EventSQDrained, EventPathMigrated,
		EventPathMigrateError, EventQPLastWQEReached:
		e.QP, _ = c.lookup(element).(*QP)
		return e, e.QP != nil
	case EventSRQError, EventSRQLimitReached:
		e.SRQ, _ = c.lookup(element).(*SRQ)
		return e, e.SRQ != nil
	case eventWQFatal:
		return e, false
	case EventDeviceFatal: // nothing follows, and the kernel leaves it at that
		c.removed.Store(true)
		c.lastEvent.Store(true)
		c.events.wake()
	}
	e.Port = int(element) // of those that newer kernels know, too, as libibverbs takes them
	return e, true
}
