// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// opened is a Context of uverbs0 of a made-up sysfs, as Open leaves it.
func opened(t *testing.T) (c *Context, folder string) {
	t.Helper()
	s := tree(t, rxeTree)
	c = &Context{system: s, info: DeviceInfo{Name: "rxe0", Uverbs: "uverbs0"}, objects: map[uint64]closer{}}
	var err error
	c.node, err = sysfsNode(s, c.info)
	require.NoError(t, err)
	return c, filepath.Join(s.Sys, "class/infiniband_verbs/uverbs0")
}

// TestRemovedBySysfs: a device is gone when its folder is, also when a new device has taken its number
// and name; another name alone (rdma dev set) means nothing.
func TestRemovedBySysfs(t *testing.T) {
	c, folder := opened(t)
	assert.False(t, c.Removed())
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ibdev"), []byte("renamed\n"), 0o644))
	assert.False(t, c.Removed(), "it has another name")
	assert.ErrorIs(t, c.judge(unix.EIO), unix.EIO)
	assert.NotErrorIs(t, c.judge(unix.EIO), ErrRemoved, "a failure of the driver")

	require.NoError(t, os.Rename(folder, folder+".old"))
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ibdev"), []byte("rxe0\n"), 0o644))
	err := wrap("register MR", "rxe0", c.judge(unix.EIO))
	assert.ErrorIs(t, err, ErrRemoved)
	assert.ErrorIs(t, err, unix.EIO)
	assert.True(t, c.Removed(), "another device has its number and name")
	assert.NoError(t, c.judge(nil))
	assert.Equal(t, unix.EINVAL, c.judge(unix.EINVAL))

	c, folder = opened(t)
	require.NoError(t, os.RemoveAll(folder))
	assert.True(t, c.Removed())
}

// hangUp is an event file whose read fails with EIO, and tells so, once end is called: a terminal.
func hangUp(t *testing.T) (e *eventFile, end func()) {
	t.Helper()
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0))
	other, err := unix.IoctlRetInt(master, unix.TIOCGPTPEER)
	require.NoError(t, err)
	e, err = newEventFile(master, "terminal")
	require.NoError(t, err)
	t.Cleanup(e.close)
	return e, func() { require.NoError(t, unix.Close(other)) }
}

// TestRemovedByEventFiles: waits that are under way, and later ones, end with ErrRemoved at once.
func TestRemovedByEventFiles(t *testing.T) {
	for name, of := range map[string]func(c *Context, e *eventFile) (wait, poll func() error){
		"CompChannel": func(c *Context, e *eventFile) (wait, poll func() error) {
			ch := &CompChannel{object: object{ctx: c, kind: "completion channel"}, file: e}
			return func() error { _, err := ch.Wait(context.Background()); return err }, func() error { _, err := ch.Poll(); return err }
		},
		"Context": func(c *Context, e *eventFile) (wait, poll func() error) {
			c.events = e
			return func() error { _, err := c.WaitEvent(context.Background()); return err }, func() error { _, _, err := c.PollEvent(); return err }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := opened(t)
			e, end := hangUp(t)
			wait, poll := of(c, e)
			ended := make(chan error, 1)
			go func() { ended <- wait() }()
			require.NoError(t, poll())
			time.Sleep(20 * time.Millisecond)
			assert.False(t, c.Removed())
			end()
			select {
			case err := <-ended:
				assert.ErrorIs(t, err, ErrRemoved)
			case <-time.After(notStuck):
				t.Fatal("the wait goes on")
			}
			assert.True(t, c.Removed())
			assert.ErrorIs(t, wait(), ErrRemoved)
			assert.ErrorIs(t, poll(), ErrRemoved)
		})
	}
}

// TestRemovedByEvent: once the kernel has reported the removal no wait lasts, those under way included.
func TestRemovedByEvent(t *testing.T) {
	c, _ := opened(t)
	e, kernel := eventPipe(t)
	c.events = e
	waits := make(chan error, 1)
	go func() {
		for {
			if _, err := c.WaitEvent(context.Background()); err != nil {
				waits <- err
				return
			}
		}
	}()
	time.Sleep(20 * time.Millisecond)
	_, err := unix.Write(kernel, binary.NativeEndian.AppendUint64(make([]byte, 8), uint64(EventDeviceFatal)))
	require.NoError(t, err)
	_, _, err = c.PollEvent() // one of the two reads it
	require.NoError(t, err)
	select {
	case err := <-waits:
		assert.ErrorIs(t, err, ErrRemoved)
	case <-time.After(notStuck):
		t.Fatal("the wait goes on")
	}
	assert.True(t, c.Removed())
	_, err = c.WaitEvent(context.Background())
	assert.ErrorIs(t, err, ErrRemoved)
}
