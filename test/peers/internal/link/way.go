// SPDX-License-Identifier: Apache-2.0

package link

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A way is one direction: the thread and its packets.
type way struct {
	in, out, stop int
	wire          *wire
	ring          *ring
	spare         []byte // for packets that there is no room for

	count counts
}

// counts are Counters that another thread may read.
type counts struct {
	packets, bytes, lost, overflowed, refused, late atomic.Uint64
	latest                                          atomic.Int64
}

// smallest is the packet size that the ring has room for at a full queue: of
// acknowledgements fewer bytes than that many fit in.
const smallest = 64

func newWay(in, out, stop int, c Config, stream uint64) *way {
	onWire := int(float64(c.Rate) / 8 * c.Delay.Seconds())
	size := c.Queue + onWire
	return &way{
		in: in, out: out, stop: stop,
		wire: newWire(c, stream), ring: newRing(size, size/smallest), spare: make([]byte, MaxPacket),
	}
}

// batch is how many packets are read before the clock is looked at for those
// that are due, and the other way round.
const batch = 16

func (w *way) run(priority int) {
	runtime.LockOSThread() // never unlocked: the thread, with its priority, ends with the goroutine
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if priority > 0 {
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}, 0)
	}
	for {
		c := Counters{}
		more := w.receive(&c)
		delivered, moreDue := w.deliver(&c)
		w.book(c)
		switch {
		case more || moreDue:
		case c.Packets > 0 || delivered > 0:
			nap()
		case !w.wait():
			return
		}
	}
}

// nap lets what comes and is due next gather: waking up for each packet costs the
// machine more than carrying it, and the hosts need that time.
func nap() {
	_ = unix.Nanosleep(&unix.Timespec{Nsec: Grain.Nanoseconds()}, nil)
}

// receive takes a batch of packets from one host, and says whether there may be
// more.
func (w *way) receive(c *Counters) bool {
	for range batch {
		b := w.ring.room()
		full := b == nil
		if full {
			b = w.spare
		}
		n, err := unix.Read(w.in, b)
		if err != nil || n <= 0 {
			return err == unix.EINTR
		}
		c.Packets++
		c.Bytes += uint64(n)
		due, fate := w.wire.send(nanoseconds(), n)
		switch {
		case fate == lost:
			c.Lost++
		case fate == overflows || full:
			c.Overflowed++
		default:
			w.ring.put(n, due)
		}
	}
	return true
}

// deliver gives a batch of packets that are due to the other host, and says how
// many and whether there may be more.
func (w *way) deliver(c *Counters) (n int, more bool) {
	now := nanoseconds()
	for n < batch {
		if w.ring.empty() {
			return n, false
		}
		p := w.ring.oldest()
		if p.due > now {
			if now = nanoseconds(); p.due > now {
				return n, false
			}
		}
		if late := time.Duration(now - p.due); late > LateAfter {
			c.Late++
			c.Latest = max(c.Latest, late)
		}
		if _, err := unix.Write(w.out, w.ring.content(p)); err != nil {
			c.Refused++
		}
		w.ring.drop()
		n++
	}
	return n, true
}

// wait sleeps until a packet comes or is due, and returns false when the link
// closes.
func (w *way) wait() bool {
	var until *unix.Timespec
	if !w.ring.empty() {
		t := unix.NsecToTimespec(max(0, w.ring.oldest().due-nanoseconds()))
		until = &t
	}
	fds := [...]unix.PollFd{{Fd: int32(w.in), Events: unix.POLLIN}, {Fd: int32(w.stop), Events: unix.POLLIN}}
	_, err := unix.Ppoll(fds[:], until, nil)
	return (err == nil || err == unix.EINTR) && fds[1].Revents == 0
}

// book adds c to the counters, without a lock: whoever reads them may be kept from
// running by others, which must not stop the link.
func (w *way) book(c Counters) {
	n := &w.count
	n.packets.Add(c.Packets)
	n.bytes.Add(c.Bytes)
	n.lost.Add(c.Lost)
	n.overflowed.Add(c.Overflowed)
	n.refused.Add(c.Refused)
	n.late.Add(c.Late)
	if c.Latest > time.Duration(n.latest.Load()) {
		n.latest.Store(int64(c.Latest))
	}
}

func (w *way) counters() Counters {
	n := &w.count
	return Counters{
		Packets: n.packets.Load(), Bytes: n.bytes.Load(), Lost: n.lost.Load(), Overflowed: n.overflowed.Load(),
		Refused: n.refused.Load(), Late: n.late.Load(), Latest: time.Duration(n.latest.Load()),
	}
}

func nanoseconds() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
