// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// object is what all verbs objects have in common: a place in the tree of dependencies.
type object struct {
	ctx  *Context
	kind string
	// id never repeats within a context. Events carry it.
	id      uint64
	parents []*object
	// users counts the objects that depend on this one, by kind. Guarded by ctx.tree.
	users map[string]int
	// closed is set before the kernel is asked to destroy. Guarded by ctx.tree.
	closed bool
}

type closer interface {
	io.Closer
	base() *object
	die()
}

func (o *object) base() *object { return o }

// die is called for what the kernel would not destroy, before the provider's memory goes: queues have it refuse all calls.
func (o *object) die() {}

// String names the object in errors.
func (o *object) String() string { return o.kind + " of " + o.ctx.info.Name }

// attach makes the place of a new object below its parents, which can't be closed from now on. It
// comes before the kernel's object, and abandon undoes it when that can't be made. Context.Close waits for abandon or publish.
func (c *Context) attach(kind string, parents ...*object) (object, error) {
	c.tree.Lock()
	defer c.tree.Unlock()
	if c.closing {
		return object{}, &Error{Op: "create " + kind, Object: c.info.Name, Err: ErrClosed}
	}
	for _, p := range parents {
		if p.ctx != c {
			return object{}, &Error{Op: "create " + kind, Object: c.info.Name, Err: unix.EINVAL,
				Fix: "the " + p.kind + " given belongs to another open device"}
		}
		if p.closed {
			return object{}, &Error{Op: "create " + kind, Object: p.String(), Err: ErrClosed}
		}
	}
	for _, p := range parents {
		p.users[kind]++
	}
	c.lastID++
	c.changing++
	return object{ctx: c, kind: kind, id: c.lastID, parents: parents, users: map[string]int{}}, nil
}

// publish enters the finished object, so that Context.Close and events find it.
func (c *Context) publish(o closer) {
	c.tree.Lock()
	defer c.tree.Unlock()
	c.objects[o.base().id] = o
	c.changed()
}

// abandon takes an object out again that could not be made.
func (o *object) abandon() {
	o.ctx.tree.Lock()
	defer o.ctx.tree.Unlock()
	o.detachLocked()
	o.ctx.changed()
}

// changed counts an object that isn't in the making, or being destroyed, any more; c.tree is held.
func (c *Context) changed() {
	if c.changing--; c.changing == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// settle keeps objects from being begun, and waits for those that have been, and for those that others are destroying.
func (c *Context) settle() {
	c.tree.Lock()
	c.closing = true
	if c.changing > 0 && c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.tree.Unlock()
	if idle != nil {
		<-idle
	}
}

// lookup finds an object by id, nil when it is gone.
func (c *Context) lookup(id uint64) closer {
	c.tree.Lock()
	defer c.tree.Unlock()
	return c.objects[id]
}

// detachLocked removes the object from the tree.
func (o *object) detachLocked() {
	for _, p := range o.parents {
		if p.users[o.kind]--; p.users[o.kind] == 0 {
			delete(p.users, o.kind)
		}
	}
	o.parents = nil
	delete(o.ctx.objects, o.id)
}

// forget takes an object out that the kernel may still use, and keeps it until the device is closed.
func (o *object) forget() {
	o.ctx.tree.Lock()
	defer o.ctx.tree.Unlock()
	o.forgetLocked()
}

func (o *object) forgetLocked() {
	if self := o.ctx.objects[o.id]; self != nil {
		o.ctx.remains = append(o.ctx.remains, self)
	}
	o.closed = true
	o.detachLocked()
}

// close runs destroy once, when nothing depends on the object. A failure leaves it open.
func (o *object) close(verb string, destroy func() error) error {
	o.ctx.tree.Lock()
	if o.closed {
		o.ctx.tree.Unlock()
		return nil
	}
	if len(o.users) > 0 {
		err := inUse(verb, o.ctx.info.Name, o.users)
		o.ctx.tree.Unlock()
		return err
	}
	o.closed = true
	o.ctx.changing++
	o.ctx.tree.Unlock()

	err := destroy()

	o.ctx.tree.Lock()
	defer o.ctx.tree.Unlock()
	defer o.ctx.changed()
	switch {
	case err == nil:
		o.detachLocked()
		return nil
	case errors.As(err, new(notFreed)): // its handle may soon be another object's
		o.detachLocked()
		return wrap(verb, o.ctx.info.Name, err)
	case errors.Is(err, ErrRemoved): // a removed device takes its objects with it
		o.forgetLocked()
		return nil
	}
	o.closed = false
	return wrap(verb, o.ctx.info.Name, err)
}
