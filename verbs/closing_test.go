// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// thing is an object without a kernel's.
type thing struct {
	object
	gone chan struct{}
}

func (x *thing) Close() error {
	return x.close("close thing", func() error { close(x.gone); return nil })
}

// TestCloseWaitsForObjectsInTheMaking: Close waits for an object whose making is under way, and destroys it, so that its user finds it
// closed. It would else be left, with queues in memory that Close has given back. One that can't be made is waited for, too; none is begun
// afterwards.
func TestCloseWaitsForObjectsInTheMaking(t *testing.T) {
	for _, fails := range []bool{false, true} {
		fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		c := &Context{fd: fd, objects: map[uint64]closer{}, provider: &rxeProvider{}}
		o, err := c.attach("thing")
		require.NoError(t, err)
		closed := make(chan error, 2)
		for range cap(closed) { // twice is the same as once
			go func() { closed <- c.Close() }()
		}
		select {
		case <-closed:
			t.Fatal("Close doesn't wait")
		case <-time.After(20 * time.Millisecond): // long enough to see it, most times
		}
		made := &thing{object: o, gone: make(chan struct{})}
		if fails {
			o.abandon()
		} else {
			c.publish(made)
		}
		for range cap(closed) {
			require.NoError(t, <-closed)
		}
		if !fails {
			<-made.gone
		}
		assert.Empty(t, c.objects)
		_, err = c.attach("thing")
		require.ErrorIs(t, err, ErrClosed)
	}
}

// slowThing is an object whose destruction takes until it may end.
type slowThing struct {
	object
	closes        atomic.Int32
	begun, mayEnd chan struct{}
}

func (x *slowThing) Close() error {
	x.closes.Add(1)
	return x.close("close slow thing", func() error {
		close(x.begun)
		<-x.mayEnd
		return nil
	})
}

// TestCloseWaitsForOthersThatDestroy: while somebody else destroys an object, Close waits, and doesn't ask over and over.
func TestCloseWaitsForOthersThatDestroy(t *testing.T) {
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	c := &Context{fd: fd, objects: map[uint64]closer{}, provider: &rxeProvider{}}
	o, err := c.attach("slow thing")
	require.NoError(t, err)
	x := &slowThing{object: o, begun: make(chan struct{}), mayEnd: make(chan struct{})}
	c.publish(x)
	closed := make(chan error, 2)
	go func() { closed <- x.Close() }()
	<-x.begun
	go func() { closed <- c.Close() }()
	select {
	case <-closed:
		t.Fatal("Close doesn't wait")
	case <-time.After(20 * time.Millisecond): // long enough to see it, most times
	}
	close(x.mayEnd)
	for range cap(closed) {
		require.NoError(t, <-closed)
	}
	assert.EqualValues(t, 1, x.closes.Load(), "calls of the object's Close")
	assert.Empty(t, c.objects)
}
