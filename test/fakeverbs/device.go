// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/fakeverbs/internal/usernotif"
)

// Device is one adapter with one RoCEv2 port. The goroutine run plays the hardware; the kernel's part runs
// in the goroutines that answer programs. Both hold mu.
type Device struct {
	host   *Host
	driver driver
	index  int
	name   string
	guid   uint64
	gid    [16]byte
	sink   bool
	fault  func() unix.Errno
	// noDEVX is firmware without commands for programs.
	noDEVX  bool
	removed bool
	// placement is Port.Placement, and placing what is to be written.
	placement time.Duration
	placing   []placement
	// port is nil on the host's own wire.
	port *rocePort

	// mu is the host's: a message changes both ends.
	mu       *sync.Mutex
	contexts map[usernotif.FileID]*context // by their file
	qps      map[uint32]*queuePair
	keys     map[uint32]*key // by index, the upper 24 bits of a key
	// doorbells and pairs are the pages of all contexts and the queue pairs, in any order, if listed.
	doorbells []*uar
	pairs     []*queuePair
	listed    bool
	// moderated are the CQs that may have an event that waits.
	moderated []*completionQueue
	// lastNumber is the last one that an object got: of a QP, a CQ, a key. They never repeat.
	lastNumber uint32
	stats      Stats

	stopping chan struct{}
	stopped  chan struct{}
}

// Stats counts what a device has done.
type Stats struct {
	// Doorbells rung, work requests executed, completions written.
	Doorbells, WorkRequests, Completions int
	// Dropped are messages that found no memory, no receive request or no QP, of unreliable QPs; on a network packets.
	Dropped int
	// PacketsSent and PacketsReceived are those of a port on a network; BadICRC of the latter were damaged.
	PacketsSent, PacketsReceived, BadICRC int
	// Violations are what a driver must not do, and hardware would not forgive.
	Violations []string
	// Objects are those that exist now.
	Objects int
}

func newDevice(h *Host, index int, p Port) *Device {
	return &Device{host: h, driver: drivers[p.Driver], index: index, name: p.Name, guid: 0x5054_00ff_fe12_3400 + uint64(index), gid: p.Addr.As16(), sink: p.Sink, fault: p.Fault, noDEVX: p.NoDEVX, placement: p.Placement,
		mu: &h.mu, contexts: map[usernotif.FileID]*context{}, qps: map[uint32]*queuePair{}, keys: map[uint32]*key{}, lastNumber: 0x100,
		stopping: make(chan struct{}), stopped: make(chan struct{})}
}

// Name is the device's, such as fake0.
func (d *Device) Name() string { return d.name }

// Has tells whether the device has a queue pair. It is for a Host's Posted.
func (d *Device) Has(qpn uint32) bool { return d.qps[qpn] != nil }

// Stats returns the device's counters.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Violations = append([]string(nil), s.Violations...)
	for _, c := range d.contexts {
		s.Objects += len(c.objects)
	}
	return s
}

// maxViolations is enough to see what is wrong.
const maxViolations = 20

func (d *Device) violation(format string, args ...any) {
	d.host.logf("violation: "+format, args...)
	if len(d.stats.Violations) < maxViolations {
		d.stats.Violations = append(d.stats.Violations, fmt.Sprintf(format, args...))
	}
}

// memoryGone is a violation unless the context's process has ended: a real device's memory is pinned until the kernel
// has closed the file, so that it still finds there what was.
func (d *Device) memoryGone(c *context, format string, args ...any) {
	if !c.mem.Ended() {
		d.violation(format, args...)
	}
}

// number is a new object's.
func (d *Device) number() uint32 {
	d.lastNumber++
	return d.lastNumber
}

// context is one open file of the device.
type context struct {
	device *Device
	mem    usernotif.Memory
	file   *usernotif.Shared
	id     usernotif.FileID

	// live is set by GET_CONTEXT, and released when the program has ended.
	live    bool
	objects map[uint32]object
	last    uint32
	async   *pipe

	// Of mlx5: doorbell pages by their place in the file, and whether the program may give firmware commands.
	uars map[uint32]*uar
	devx bool
	// Of rxe: where in the file the next ring begins, and rings that were freed, by size.
	rings int
	freed map[int][]int
}

// object is what a handle names.
type object interface {
	// destroy ends it; users of it have been destroyed before, or it fails with EBUSY.
	destroy(*Device) unix.Errno
}

// open makes the context of a new file. pid may be that of any thread.
func (d *Device) open(pid int) (*context, error) {
	file, err := usernotif.NewShared(d.name, d.driver.identity().file)
	if err != nil {
		return nil, err
	}
	c := &context{device: d, mem: usernotif.Memory{PID: process(pid)}, file: file, objects: map[uint32]object{}, uars: map[uint32]*uar{}, freed: map[int][]int{}}
	if c.id, err = file.ID(); err != nil {
		file.Close()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contexts[c.id] = c
	d.listed = false
	return c, nil
}

// process is the process of a thread: threads end before their process does.
func process(tid int) int {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	for line := range strings.Lines(string(status)) {
		var pid int
		if n, _ := fmt.Sscanf(line, "Tgid: %d", &pid); n == 1 {
			return pid
		}
	}
	return tid
}

func (d *Device) context(id usernotif.FileID) *context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.contexts[id]
}

// release destroys what a context still has, as the kernel does when the file is closed.
func (d *Device) release(c *context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.destroyAll(c)
	if c.async != nil {
		c.async.close()
	}
	delete(d.contexts, c.id)
	d.listed = false
	c.file.Close()
}

// destroyAll destroys a context's objects, users before what they use.
func (d *Device) destroyAll(c *context) {
	for len(c.objects) > 0 {
		before := len(c.objects)
		for h, o := range c.objects {
			if o.destroy(d) == 0 {
				delete(c.objects, h)
			}
		}
		if len(c.objects) == before {
			d.violation("%d objects can't be destroyed", before)
			return
		}
	}
}

// Remove takes the device away from programs that have it open, as the kernel does when an adapter is unplugged or has failed for
// good: they get the event DEVICE_FATAL, their objects are gone, and each further call fails with EIO. In sysfs it is no more, and
// it does nothing any more.
func (d *Device) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removed = true
	for _, c := range d.contexts {
		c.event(portNumber, eventDeviceFatal)
		d.destroyAll(c)
	}
	class := filepath.Join(d.host.sys, "class")
	return errors.Join(os.RemoveAll(filepath.Join(class, "infiniband", d.name)),
		os.RemoveAll(filepath.Join(class, "infiniband_verbs", fmt.Sprintf("uverbs%d", d.index))))
}

// add gives an object a handle.
func (c *context) add(o object) uint32 {
	c.last++
	c.objects[c.last] = o
	return c.last
}

// get finds an object of a kind.
func get[T object](c *context, handle uint32) (o T, e unix.Errno) {
	o, ok := c.objects[handle].(T)
	if !ok {
		return o, unix.EINVAL
	}
	return o, 0
}

// remove destroys an object of a kind.
func remove[T object](c *context, handle uint32) unix.Errno {
	o, e := get[T](c, handle)
	if e == 0 {
		e = o.destroy(c.device)
	}
	if e == 0 {
		delete(c.objects, handle)
	}
	return e
}

// pipe is a file from which a program reads events: a socket, whose end is shared with the program, so that
// events that it has not read can be taken back.
type pipe struct {
	read, write int
	inode       uint64
}

func newPipe() (*pipe, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	p := &pipe{read: fds[0], write: fds[1]}
	var st unix.Stat_t
	if err := unix.Fstat(p.read, &st); err != nil {
		p.close()
		return nil, err
	}
	p.inode = st.Ino
	return p, nil
}

func (p *pipe) close() {
	unix.Close(p.read)
	unix.Close(p.write)
}

// send sends an event. A queue that nobody reads must not stop the device, so what doesn't fit is lost.
func (p *pipe) send(b []byte) { _ = unix.Sendto(p.write, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil) }

// takeBack removes the events that the program has not read and that match, and returns their number.
func (p *pipe) takeBack(match func([]byte) bool) (n int) {
	var others [][]byte
	for {
		b := make([]byte, 64)
		size, _, err := unix.Recvfrom(p.read, b, unix.MSG_DONTWAIT)
		if err != nil || size == 0 {
			break
		}
		if match(b[:size]) {
			n++
		} else {
			others = append(others, b[:size])
		}
	}
	for _, b := range others {
		p.send(b)
	}
	return n
}

// give gives the caller the reading end.
func (p *pipe) give(call *usernotif.Call) (int, error) { return call.AddFile(p.read) }

// sameFile tells whether a file descriptor of the caller is the pipe.
func (p *pipe) sameFile(r *request, fd uint32) bool {
	var st unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", r.mem.PID, fd), &st) == nil && st.Ino == p.inode
}

// Events of struct ib_uverbs_async_event_desc (enum ib_event_type).
const (
	eventCQError     = 0
	eventQPFatal     = 1
	eventQPAccess    = 3
	eventSRQLimit    = 15
	eventLastWQE     = 16
	eventDeviceFatal = 8
)

// event sends an asynchronous event about the object that the program calls element.
func (c *context) event(element uint64, kind uint32) {
	if c.async == nil {
		return
	}
	b := le.AppendUint64(nil, element)
	b = le.AppendUint32(b, kind)
	c.async.send(le.AppendUint32(b, 0))
}

// Idle waits of the hardware: at first it looks again at once, later after a pause, so that a machine with
// two processors has one for each end. A device that nobody has open, or that has had nothing to do for long, sleeps.
const (
	busyRounds = 50
	pause      = 20 * time.Microsecond
	longRounds = 500
	longPause  = 200 * time.Microsecond
	sleep      = time.Millisecond
)

// run plays the hardware until stop.
func (d *Device) run() {
	defer close(d.stopped)
	idle := 0
	for {
		select {
		case <-d.stopping:
			return
		default:
		}
		if d.step() {
			idle = 0
			continue
		}
		idle++
		switch {
		case !d.opened():
			time.Sleep(sleep)
		case idle > longRounds:
			time.Sleep(longPause)
		case idle > busyRounds:
			time.Sleep(pause)
		}
	}
}

func (d *Device) opened() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.contexts) > 0
}

func (d *Device) stop() {
	close(d.stopping)
	<-d.stopped
	if d.port != nil {
		d.port.close()
	}
}
