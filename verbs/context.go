// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
	"golang.org/x/sys/unix"
)

// Context is an open RDMA device.
type Context struct {
	system System
	info   DeviceInfo
	driver uint32
	// provider is that of the driver.
	provider provider
	fd       int
	attr     DeviceAttr
	// node identifies the device in sysfs. removed is set when the device was found to be gone.
	node    uint64
	removed atomic.Bool
	// lastEvent is set when the last event has been read.
	lastEvent atomic.Bool
	// vectors is the number of completion vectors.
	vectors uint32
	events  *eventFile

	// open is held for reading during calls on fd, for writing by Close.
	open   sync.RWMutex
	closed bool

	// tree guards the objects below, their users and their closed flags.
	tree    sync.Mutex
	objects map[uint64]closer
	lastID  uint64
	// changing counts the objects that have been begun and aren't among objects yet, and those that are being destroyed. Close waits
	// for idle, which is closed with the last of them, and keeps others from being begun: closing. Guarded by tree.
	changing int
	idle     chan struct{}
	closing  bool
	// pending are events that were read on the way and not fetched yet. Guarded by tree.
	pending []AsyncEvent
	// remains are closed objects that the kernel may still use until the device is closed: it would not
	// destroy them, or said that the device was removed, which it says before it has cleaned up.
	// Guarded by tree.
	remains []closer
}

// Open opens the device of that name. Close the Context when it is no longer needed: a process that
// only forgets it keeps the device from being removed, and all that was registered with it in memory.
func (s System) Open(name string) (*Context, error) {
	info, err := s.Lookup(name)
	if err != nil {
		return nil, err
	}
	// Before the file is opened: a device that is replaced in between counts as removed.
	node, err := sysfsNode(s, info)
	if err != nil {
		return nil, &Error{Op: "open device", Object: name, Err: err, Fix: openFix(unix.ENODEV)}
	}
	path := s.dev(info.Uverbs)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: "open device", Object: name + ", " + path, Err: err, Fix: openFix(err)}
	}
	c := &Context{system: s, info: info, node: node, fd: fd, objects: map[uint64]closer{}}
	if err := c.start(); err != nil {
		c.events.close()
		unix.Close(fd)
		return nil, err
	}
	live.add(c)
	return c, nil
}

// start makes the kernel's side of the context and its event file.
func (c *Context) start() error {
	if err := c.getContext(); err != nil {
		return err
	}
	call := uapi.NewCall(&uapi.UVERBS_METHOD_ASYNC_EVENT_ALLOC)
	call.PutNew(uapi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)
	if err := c.do(call); err != nil {
		return wrap("open event file", c.info.Name, err)
	}
	var err error
	fd := int(call.Result(uapi.UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE))
	if c.events, err = newEventFile(fd, "events of "+c.info.Name); err != nil {
		return wrap("open event file", c.info.Name, err)
	}
	c.attr, err = c.QueryDevice()
	return err
}

// getContext finds the provider: the kernel refuses the call under another driver's number.
func (c *Context) getContext() error {
	for _, known := range providers {
		p := known.make(c)
		var support uint64
		call := uapi.NewCall(&uapi.UVERBS_METHOD_GET_CONTEXT)
		uapi.PutOut(call, uapi.UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &c.vectors)
		uapi.PutOut(call, uapi.UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support)
		p.context(call)
		err := call.Do(c.fd, known.driver)
		if errors.Is(err, unix.EINVAL) || err != nil && known.optional {
			continue
		}
		c.driver, c.provider = known.driver, p
		if err == nil {
			err = p.opened()
		}
		return wrap("open device", c.info.Name, err)
	}
	return &Error{Op: "open device", Object: c.info.Name, Err: ErrNoProvider,
		Fix: fmt.Sprintf("its kernel driver is %q; this package drives rxe and mlx5", c.info.Driver)}
}

// Info is what sysfs said about the device when it was opened.
func (c *Context) Info() DeviceInfo { return c.info }

// NumCompVectors is the number of completion vectors that CreateCQ can choose from.
func (c *Context) NumCompVectors() int { return int(c.vectors) }

// do makes a call, unless the context is closed. The error is a plain errno, ErrRemoved or ErrClosed.
func (c *Context) do(call *uapi.Call) error {
	c.open.RLock()
	defer c.open.RUnlock()
	if c.closed {
		call.Abandon()
		return ErrClosed
	}
	return c.judge(call.Do(c.fd, c.driver))
}

func write[I, O any](c *Context, cmd uint32, in *I, out *O) error {
	return c.do(uapi.NewWrite(cmd, in, out))
}

// Close destroys all objects of the device that are still open, the newest first, and closes it.
// It is idempotent. After an error, memory that was registered is never collected.
func (c *Context) Close() error {
	var errs []error
	for {
		c.settle()
		o := c.newest()
		if o == nil {
			break
		}
		if err := o.Close(); err != nil {
			// The kernel cleans up what it would not destroy when the file is closed.
			errs = append(errs, err)
			o.base().forget()
			o.die()
		}
	}
	c.open.Lock()
	defer c.open.Unlock()
	if c.closed {
		return errors.Join(errs...)
	}
	c.closed = true
	c.events.close()
	errs = append(errs, wrap("close device", c.info.Name, errors.Join(c.provider.close(), unix.Close(c.fd))))
	err := errors.Join(errs...)
	if err == nil {
		live.remove(c)
	}
	return err
}

func (c *Context) newest() closer {
	c.tree.Lock()
	defer c.tree.Unlock()
	if len(c.objects) == 0 {
		return nil
	}
	return c.objects[slices.MaxFunc(slices.Collect(maps.Keys(c.objects)), cmp.Compare[uint64])]
}
