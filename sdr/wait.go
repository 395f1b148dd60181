// SPDX-License-Identifier: Apache-2.0

package sdr

import "context"

// wait blocks until cond, called with mu held, is true or fails.
func (q *QP) wait(ctx context.Context, op string, cond func() (bool, error)) error {
	if q.ctx.manual {
		return &OpError{Op: op, Object: q.name, Err: ErrNotSupported, Fix: "with Manual workers, poll and run Progress instead"}
	}
	ch := make(chan struct{}, 1)
	defer q.unwait(ch)
	for {
		q.mu.Lock()
		ok, err := cond()
		if ok || err != nil {
			q.mu.Unlock()
			return err
		}
		q.waiters = append(q.waiters, ch)
		q.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			return &OpError{Op: op, Object: q.name, Err: context.Cause(ctx)}
		}
	}
}

// wakeWaiters makes all waiting calls look again; mu is held.
func (q *QP) wakeWaiters() {
	for _, ch := range q.waiters {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
	q.waiters = q.waiters[:0]
}

func (q *QP) unwait(ch chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiters {
		if w == ch {
			q.waiters[i] = q.waiters[len(q.waiters)-1]
			q.waiters = q.waiters[:len(q.waiters)-1]
			return
		}
	}
}
