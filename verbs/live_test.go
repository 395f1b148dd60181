// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// registered enters an open Context of a file that refuses every call, with a region as RegisterMR
// leaves it, and returns what tells whether its memory has been collected.
func registered(t *testing.T) (c *Context, collected *atomic.Bool) {
	t.Helper()
	fd, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	c = &Context{info: DeviceInfo{Name: "null"}, fd: fd, objects: map[uint64]closer{}, provider: &rxeProvider{}}
	live.add(c)
	o, err := c.attach("MR")
	require.NoError(t, err)
	mr := &MR{object: o, buf: make([]byte, 1<<16)}
	c.publish(mr)
	collected = new(atomic.Bool)
	runtime.AddCleanup(&mr.buf[0], func(b *atomic.Bool) { b.Store(true) }, collected)
	return c, collected
}

// collects tells whether memory is collected within a time that is ample for it.
func collects(collected *atomic.Bool, within time.Duration) bool {
	for end := time.Now().Add(within); !collected.Load() && time.Now().Before(end); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	return collected.Load()
}

// TestForgottenContextKeepsMemory: what is registered is not collected before its device is closed.
// TestForgottenContextIsSafe has a peer write to it.
func TestForgottenContextKeepsMemory(t *testing.T) {
	c, collected := registered(t)
	c.newest().base().detachLocked() // as after the kernel has destroyed it
	require.NoError(t, c.Close())
	assert.True(t, collects(collected, 10*time.Second), "memory of a closed device is the caller's")

	c, collected = registered(t)
	fd := c.fd
	c = nil //nolint:ineffassign,wastedassign // the point: nothing of ours refers to it any more
	assert.False(t, collects(collected, 100*time.Millisecond), "memory of a forgotten Context")
	require.NoError(t, unix.Close(fd))

	c, collected = registered(t)
	assert.ErrorIs(t, c.Close(), unix.ENOTTY)
	c = nil //nolint:ineffassign,wastedassign // as above
	assert.False(t, collects(collected, 100*time.Millisecond), "memory that the kernel would not give back")
}
