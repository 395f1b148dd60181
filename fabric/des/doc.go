// SPDX-License-Identifier: Apache-2.0

// Package des is the core of a discrete-event simulation: time in picoseconds and a queue of
// events in a total order.
//
// # Order
//
// Events are ordered by (T, Key) and by nothing else: not by who scheduled first, which would
// depend on the order of execution. So the order of a run does not depend on the queue, on the
// width of its buckets, or on how a run is divided. A simulation whose events are unique by (T, Key),
// or equal in Arg as well where they are not, gives the same results with every Config.
//
// # The queue
//
// A Queue is a calendar queue (Brown, "Calendar Queues", CACM 31(10), 1988): a ring of buckets,
// each as wide as a power of two picoseconds. Pushing appends to a bucket; a bucket is sorted when
// its time comes; a bitmap finds the next that is not empty; what lies beyond the ring waits in a
// heap. The width adapts to how dense events are. A million pending events cost little more than a
// thousand, where a heap pays for each level with a cache miss.
//
// Nothing here is safe for concurrent use. Push and Pop allocate only while the queue is larger
// than it ever was.
package des
