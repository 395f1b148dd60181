// SPDX-License-Identifier: Apache-2.0

package rxe

import (
	"unsafe"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// CompletionQueue is the user's side of a completion queue.
type CompletionQueue struct {
	ring
	consumer uint32
}

// MapCompletion maps a completion queue.
func MapCompletion(fd int, mi uapi.RxeMminfo) (CompletionQueue, error) {
	r, err := mapRing(fd, mi, unsafe.Sizeof(uapi.Wc{}))
	if err != nil {
		return CompletionQueue{}, err
	}
	return CompletionQueue{ring: r, consumer: r.loadConsumer()}, nil
}

// Unmap releases the mapping; it is idempotent.
func (q *CompletionQueue) Unmap() error { return q.unmap() }

// Ready is the number of completions that can be read with At.
func (q *CompletionQueue) Ready() int { return int((q.loadProducer() - q.consumer) & q.mask) }

// Read copies the completion i places after the oldest; i is less than Ready. T is uapi.Wc, or has the
// same fields in the same places, so that a caller's own type takes one copy.
func Read[T any](q *CompletionQueue, i int, dst *T) {
	*dst = *(*T)(q.element(q.consumer + uint32(i)))
}

// Consume gives the n oldest completions back to the kernel, all that there are at most. full tells that the kernel had no room before, at
// the latest possible moment: the queue may have been filled while it was read.
func (q *CompletionQueue) Consume(n int) (full bool) {
	first := q.consumer
	q.consumer = (q.consumer + uint32(n)) & q.mask
	q.storeConsumer(q.consumer)
	// The kernel may have gone on behind what was full before; then its index has come round.
	written := int((q.loadProducer() - first) & q.mask)
	return written == q.Capacity() || written < n
}
