// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A way is one direction: the thread and its packets.
type way struct {
	in, out, stop int
	config        *Config
	wire          *wire
	lanes         []*lane
	current       []*lane // of each flow
	flows         [256]uint8
	bytes         []byte // of the packet that has just come
	changes       []Change
	records       records
	begin         atomic.Int64 // nanoseconds, once Begin has been called

	count counts
}

// counts are Counters that another thread may read.
type counts struct {
	packets, bytes, lost, overflowed, marked, refused, late atomic.Uint64
	latest                                                  atomic.Int64
}

func newWay(in, out, stop int, c *Config, stream uint64) *way {
	w := &way{in: in, out: out, stop: stop, config: c, wire: newWire(*c, stream), bytes: make([]byte, MaxPacket), changes: c.Changes}
	for i, f := range c.Flows {
		w.flows[last(f.Addr)] = uint8(i + 1)
		w.current = append(w.current, newLane(c, i, f.Delay.Nanoseconds()))
	}
	if len(c.Flows) == 0 {
		w.current = append(w.current, newLane(c, 0, c.Delay.Nanoseconds()))
	}
	w.lanes = append(w.lanes, w.current...)
	w.records.flows = make([][]Record, len(w.current))
	return w
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
		w.change(nanoseconds(), &c)
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

// change does what is due of the changes at now.
func (w *way) change(now int64, c *Counters) {
	if w.records.begun == 0 {
		w.records.begun = w.begin.Load()
	}
	if w.changeAt() <= now {
		x := w.changes[0]
		w.changes = w.changes[1:]
		w.changeRate(now, x.Rate, c)
		if x.Delay != 0 {
			for i, l := range w.current {
				w.current[i] = newLane(w.config, l.flow, x.Delay.Nanoseconds())
			}
			w.lanes = append(w.lanes, w.current...)
		}
	}
}

func (w *way) changeRate(now, rate int64, c *Counters) {
	before := w.wire.change(now, rate)
	for _, l := range w.lanes {
		if rate == 0 {
			n := uint64(l.cut(now))
			c.Lost += n
			w.records.at(l.flow, now).Lost += n
		} else if before != 0 {
			l.after(now, func(p *packet) { p.left = w.wire.moved(p.left, now, before) })
		}
	}
}

// changeAt is when the next change is due.
func (w *way) changeAt() int64 {
	if w.records.begun == 0 || len(w.changes) == 0 {
		return math.MaxInt64
	}
	return w.records.begun + w.changes[0].At.Nanoseconds()
}

// receive takes a batch of packets from one host, and says whether there may be
// more.
func (w *way) receive(c *Counters) bool {
	for range batch {
		n, err := unix.Read(w.in, w.bytes)
		if err != nil || n <= 0 {
			return err == unix.EINTR
		}
		w.take(w.bytes[:n], nanoseconds(), c)
	}
	return true
}

// take queues a packet that has come at now, or drops it.
func (w *way) take(b []byte, now int64, c *Counters) {
	c.Packets++
	c.Bytes += uint64(len(b))
	l := w.current[w.flowOf(b)]
	r := w.records.at(l.flow, now)
	r.Packets++
	left, fate := w.wire.send(now, len(b), ect(b))
	room := l.room()
	switch {
	case fate == lost:
		c.Lost++
		r.Lost++
		return
	case fate == overflows || room == nil:
		c.Overflowed++
		r.Dropped++
		return
	case fate == marked:
		c.Marked++
		r.Marked++
		mark(b)
	}
	r.Wait += time.Duration(left - now)
	r.Most = max(r.Most, int(w.wire.backlog(now)))
	copy(room, b)
	l.put(len(b), left)
}

// next is the lane of the packet that arrives next, nil if none is under way.
func (w *way) next() (next *lane) {
	for _, l := range w.lanes {
		if !l.empty() && (next == nil || l.due() < next.due()) {
			next = l
		}
	}
	return next
}

// deliver gives a batch of packets that are due to the other host, and says how
// many and whether there may be more.
func (w *way) deliver(c *Counters) (n int, more bool) {
	now := nanoseconds()
	for n < batch {
		l := w.next()
		if l == nil {
			return n, false
		}
		due := l.due()
		if due > now {
			if now = nanoseconds(); due > now {
				return n, false
			}
		}
		if late := time.Duration(now - due); late > LateAfter {
			c.Late++
			c.Latest = max(c.Latest, late)
		}
		p := l.oldest()
		w.records.at(l.flow, p.left).Bytes += uint64(p.len)
		if _, err := unix.Write(w.out, l.content(p)); err != nil {
			c.Refused++
		}
		l.drop()
		n++
	}
	return n, true
}

// wait sleeps until a packet comes or is due, or the link changes, and returns false
// when it closes.
func (w *way) wait() bool {
	var until *unix.Timespec
	at := w.changeAt()
	if l := w.next(); l != nil {
		at = min(at, l.due())
	}
	if at != math.MaxInt64 {
		t := unix.NsecToTimespec(max(0, at-nanoseconds()))
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
	n.marked.Add(c.Marked)
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
		Marked: n.marked.Load(), Refused: n.refused.Load(), Late: n.late.Load(), Latest: time.Duration(n.latest.Load()),
	}
}

func nanoseconds() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
