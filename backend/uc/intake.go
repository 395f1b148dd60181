// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// An intake accounts for what a soft device has taken from the wire and completed nothing of. rxe drops such
// packets without a trace, but counts all that it takes, for all who use the device together: so the Devices of
// this process on one device share an intake, and where others use it too nothing can be said.
type intake struct {
	// completed counts the packets that completed a receive, queuePairs those that are open, or about to be.
	completed  atomic.Uint64
	queuePairs atomic.Int64
	// empty counts when a queue pair was found without a receive.
	empty atomic.Uint64

	mu     sync.Mutex
	users  int     // guarded by intakes
	teller *Device // the one of them whose Stats have the counts; +checklocks:mu
	base   uint64  // what the device had taken before; +checklocks:mu
	counts bool    // the device counts; +checklocks:mu
	// late and refused are what was taken and not completed, emptied what empty was then.
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
		i.counts = err == nil && !d.reliable() // their acknowledgements would be among it
		intakes.of[name] = i
	}
	i.users++
	return i
}

// intakeName keeps reliable connections apart: to the others they are traffic that isn't theirs.
func (d *Device) intakeName() string { return d.cfg.name() + " " + d.cfg.Device }

// leave is for a Device that is closed.
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

// received is how many packets the device has received for us, if that can be said; mu is held.
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

// settle works out what has become of so many packets received; mu is held.
func (i *intake) settle(received uint64) {
	missing := received - min(received, i.completed.Load())
	empty := i.empty.Load()
	switch known := i.late + i.refused; {
	case missing > known && empty == i.emptied:
		i.late += missing - known
	case missing > known:
		i.refused += missing - known
	default: // some were in flight
		over := known - missing
		back := min(over, i.late)
		i.late -= back
		i.refused -= over - back
	}
	i.emptied = empty
}
