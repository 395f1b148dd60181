// SPDX-License-Identifier: Apache-2.0

//go:build !race

package backendtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/units"
)

// The devices of this file break rules between goroutines, which the race detector would report before
// the suite can.

// brokenWaiting are devices that only their clock and their goroutines find out.
var brokenWaiting = []struct {
	name  string
	cases []string
	spoil func(d *shim)
}{
	{"doesn't wake", []string{"wait"}, func(d *shim) { d.wake = func(backend.CQ) {} }},
	{"doesn't sleep", []string{"wait"}, func(d *shim) { d.wait = func(backend.CQ, units.Duration) error { return nil } }},
	{"sleeps too well", []string{"wait"}, func(d *shim) {
		d.wait = func(_ backend.CQ, x units.Duration) error { time.Sleep(x); return nil }
	}},
	{"revokes nothing under fire", []string{"revoke under fire"}, func(d *shim) {
		d.revoked = func(t *shimTable, n uint64) bool { return true }
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			if t := cq.d.tables; len(t) > 0 {
				b := t[0].d.registered()[0].Bytes()
				b[backendtest.Guard+100]++
			}
			return cq.CQ.Poll(now, dst)
		}
	}},
	{"goes on when closed", []string{"close under fire"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			n, err := cq.CQ.Poll(now, dst)
			if errors.Is(err, backend.ErrClosed) {
				err = nil
			}
			return n, err
		}
		d.wait = func(inner backend.CQ, x units.Duration) error {
			if err := inner.Wait(x); err != nil {
				time.Sleep(time.Millisecond)
			}
			return nil
		}
	}},
	{"loses a packet for the workers", []string{"sdr workers"}, func(d *shim) {
		count := 0
		d.poll = changed(func(c *backend.Completion) bool {
			if c.Kind == backend.KindWrite {
				count++
			}
			return c.Kind != backend.KindWrite || count%29 != 0
		})
	}},
	{"says that every worker receives", []string{"sdr marks"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.Receivers = 0 }
	}},
}

func TestBrokenWaitingFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, because waiting is what is tested")
	}
	for _, b := range brokenWaiting {
		for _, name := range b.cases {
			t.Run(b.name+"/"+name, func(t *testing.T) { mustFail(t, name, realMaker(b.spoil)) })
		}
	}
}
