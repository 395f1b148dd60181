// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// An intake accounts for the packets that a soft device has taken from the wire and that completed nothing. rxe drops them
// without a trace, but it counts all packets that it takes, in one counter for everybody who uses the device. So the Devices that
// this process has on one device share an intake, and while other processes use the device nothing can be said.
type intake struct {
	// completed counts the packets that completed a receive, and queuePairs the queue pairs that are open or about to be.
	completed  atomic.Uint64
	queuePairs atomic.Int64
	// empty counts how often a queue pair was found without a receive.
	empty atomic.Uint64

	mu     sync.Mutex
	users  int     // guarded by intakes
	teller *Device // the Device whose Stats include the counts; +checklocks:mu
	base   uint64  // how many packets the device had taken before; +checklocks:mu
	counts bool    // whether the device has such a counter; +checklocks:mu
	// late and refused count the packets that were taken and completed nothing; emptied is what empty was when they were counted.
	late, refused, emptied uint64 // +checklocks:mu
}

// intakes are those of the devices that are open, by name.
var intakes = struct {
	sync.Mutex
	of map[string]*intake
}{of: map[string]*intake{}}

// receivedPackets is rxe's counter of packets that were for a queue pair of the device and intact.
const receivedPackets = "rcvd_pkts"

// kernelQPs are the queue pairs that the kernel itself has on a RoCE device: the one for management.
const kernelQPs = 1

// joinIntake gives a Device the intake of its device, before it has any queue pair.
func joinIntake(d *Device) *intake {
	intakes.Lock()
	defer intakes.Unlock()
	name := d.intakeName()
	i := intakes.of[name]
	if i == nil {
		i = &intake{teller: d}
		var err error
		i.base, err = d.ctx.PortCounter(d.cfg.Port, receivedPackets)
		i.counts = err == nil && !d.reliable() // the acknowledgements of reliable connections would be counted too
		intakes.of[name] = i
	}
	i.users++
	return i
}

// intakeName gives reliable connections an intake of their own: to the other queue pairs their packets are somebody else's.
func (d *Device) intakeName() string { return d.cfg.name() + " " + d.cfg.Device }

// leave takes a Device out that is being closed.
func (i *intake) leave(d *Device) {
	intakes.Lock()
	defer intakes.Unlock()
	if i.users--; i.users == 0 {
		delete(intakes.of, d.intakeName())
	}
}

// unplaced is how many packets the device has taken that completed nothing: late ones, whose key was dead, and
// those for which a queue pair had no receive. While packets are in flight it may be too high by as many.
func (i *intake) unplaced(d *Device) (late, refused uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.teller != d {
		return 0, 0
	}
	if received, ok := i.received(d); ok {
		i.settle(received)
	}
	return i.late, i.refused
}

// received returns how many packets the device has received for this process, if that can be said; mu is held.
func (i *intake) received(d *Device) (uint64, bool) {
	if !i.counts {
		return 0, false
	}
	all, err := verbs.Resources(d.cfg.Device)
	if err != nil || int64(all["qp"]) > i.queuePairs.Load()+kernelQPs {
		return 0, false
	}
	n, err := d.ctx.PortCounter(d.cfg.Port, receivedPackets)
	return n - min(n, i.base), err == nil
}

// settle works out how many of the packets received were late or refused; mu is held.
func (i *intake) settle(received uint64) {
	missing := received - min(received, i.completed.Load())
	empty := i.empty.Load()
	switch known := i.late + i.refused; {
	case missing > known && empty == i.emptied:
		i.late += missing - known
	case missing > known:
		i.refused += missing - known
	default: // some packets that had been taken for lost were in flight
		over := known - missing
		back := min(over, i.late)
		i.late -= back
		i.refused -= over - back
	}
	i.emptied = empty
}
