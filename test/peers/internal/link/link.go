// SPDX-License-Identifier: Apache-2.0

package link

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A Link carries packets both ways between two descriptors until it is closed.
type Link struct {
	ways [2]*way
	stop int // an eventfd that ends the threads
	done sync.WaitGroup
}

// Start makes a link between the packet descriptors a and b and sets them
// non-blocking. They stay the caller's and must outlive the link. priority above 0
// asks for that SCHED_FIFO priority, so that other load on the machine doesn't
// become delay on the link; without the privilege it runs at the normal one.
func Start(a, b int, c Config, priority int) (*Link, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	for _, fd := range []int{a, b} {
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, err
		}
	}
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	l := &Link{stop: stop, ways: [2]*way{newWay(a, b, stop, &c, 0), newWay(b, a, stop, &c, 1)}}
	for _, w := range l.ways {
		l.done.Go(func() { w.run(priority) })
	}
	return l, nil
}

// Begin lets the time of changes and Records begin. It wakes nobody up: who waits for a
// packet looks at it when one has come.
func (l *Link) Begin() {
	now := nanoseconds()
	for _, w := range l.ways {
		w.begin.Store(now)
	}
}

// Records are those of each flow from a to b, by Bins since Begin. Call it after Close.
func (l *Link) Records() [][]Record { return l.ways[0].records.flows }

// Counters are those from a to b and from b to a.
func (l *Link) Counters() (ab, ba Counters) { return l.ways[0].counters(), l.ways[1].counters() }

// Close ends the link; what is under way is lost.
func (l *Link) Close() error {
	if _, err := unix.Write(l.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	l.done.Wait()
	return unix.Close(l.stop)
}
