// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// eventPipe is an event file whose events the test writes.
func eventPipe(t *testing.T) (e *eventFile, kernel int) {
	t.Helper()
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	t.Cleanup(func() { unix.Close(p[1]) })
	e, err := newEventFile(p[0], "pipe")
	require.NoError(t, err)
	t.Cleanup(e.close)
	return e, p[1]
}

// TestEventsOfPorts: the number in an event is an object's for the types that are about objects, and a port's for all others, those of
// newer kernels among them, also when an object has that number.
func TestEventsOfPorts(t *testing.T) {
	const deviceSpeedChange = 20 // IB_EVENT_DEVICE_SPEED_CHANGE
	c := &Context{objects: map[uint64]closer{}, changing: 3}
	cq, qp, srq := &CQ{object: object{ctx: c, id: 1}}, &QP{object: object{ctx: c, id: 2}}, &SRQ{object: object{ctx: c, id: 3}}
	c.publish(cq)
	c.publish(qp)
	c.publish(srq)
	event := func(element uint64, kind EventType) (AsyncEvent, bool) {
		return c.event(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, element), uint64(kind)))
	}
	for kind := EventCQError; kind <= deviceSpeedChange+1; kind++ {
		for id := uint64(1); id <= 3; id++ {
			want := AsyncEvent{Type: kind}
			known := true
			switch kind {
			case EventCQError:
				known, want.CQ = id == 1, cq
			case EventQPFatal, EventQPRequestError, EventQPAccessError, EventCommEstablished, EventSQDrained, EventPathMigrated,
				EventPathMigrateError, EventQPLastWQEReached:
				known, want.QP = id == 2, qp
			case EventSRQError, EventSRQLimitReached:
				known, want.SRQ = id == 3, srq
			case EventDeviceFatal, 19: // the last one, and IB_EVENT_WQ_FATAL, of what this package doesn't make
				continue
			default:
				want.Port = int(id)
			}
			e, ok := event(id, kind)
			assert.Equal(t, known, ok, "%v of %d", kind, id)
			if ok {
				assert.Equal(t, want, e, "%v of %d", kind, id)
			}
		}
	}
	_, ok := event(1, 19)
	assert.False(t, ok)
}

// notStuck is the limit for what has to happen soon.
const notStuck = 10 * time.Second

func testCompletions(e *eventFile) (wait func(context.Context) error, event []byte) {
	c := &Context{objects: map[uint64]closer{}}
	c.publish(&CQ{object: object{ctx: c, id: 7}})
	ch := &CompChannel{object: object{ctx: c, kind: "completion channel"}, file: e}
	event = binary.NativeEndian.AppendUint64(nil, 7)
	return func(ctx context.Context) error { _, err := ch.Wait(ctx); return err }, event
}

func testEvents(e *eventFile) (wait func(context.Context) error, event []byte) {
	c := &Context{objects: map[uint64]closer{}, events: e}
	event = binary.NativeEndian.AppendUint64(nil, 1) // the port
	event = binary.NativeEndian.AppendUint64(event, uint64(EventPortActive))
	return func(ctx context.Context) error { _, err := c.WaitEvent(ctx); return err }, event
}

// TestWaitersAreIndependent: of several goroutines that wait for one file, each ends with its own
// context, whoever waits beside it, and the others go on waiting.
func TestWaitersAreIndependent(t *testing.T) {
	for name, start := range map[string]func(*eventFile) (func(context.Context) error, []byte){
		"CompChannel.Wait": testCompletions, "Context.WaitEvent": testEvents,
	} {
		t.Run(name, func(t *testing.T) {
			e, kernel := eventPipe(t)
			wait, event := start(e)
			first, others := make(chan error, 1), make(chan error, 3)
			go func() { first <- wait(context.Background()) }()
			time.Sleep(20 * time.Millisecond) // by now it waits; if it doesn't yet, the test is only easier to pass
			for range cap(others) {
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
					defer cancel()
					others <- wait(ctx)
				}()
			}
			for range cap(others) {
				select {
				case err := <-others:
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				case err := <-first:
					t.Fatalf("the first wait ended: %v", err)
				case <-time.After(notStuck):
					t.Fatal("a wait ignores its context while another one is under way")
				}
			}
			_, err := unix.Write(kernel, event)
			require.NoError(t, err)
			select {
			case err := <-first:
				assert.NoError(t, err)
			case <-time.After(notStuck):
				t.Fatal("the first wait missed its event")
			}
		})
	}
}

// TestCloseEndsAllWaits: Close ends every wait, also of goroutines that wait behind another one that waits.
func TestCloseEndsAllWaits(t *testing.T) {
	e, _ := eventPipe(t)
	wait, _ := testCompletions(e)
	ended := make(chan error, 3)
	for range cap(ended) {
		go func() { ended <- wait(context.Background()) }()
	}
	time.Sleep(20 * time.Millisecond)
	e.close()
	for range cap(ended) {
		select {
		case err := <-ended:
			assert.ErrorIs(t, err, ErrClosed)
		case <-time.After(notStuck):
			t.Fatal("a wait outlives the file")
		}
	}
}
