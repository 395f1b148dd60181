// SPDX-License-Identifier: Apache-2.0

// Package cqtest puts completion queues of tests' own over those of a device: to see what comes, to hold it back, or to make it up.
package cqtest

import (
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
)

// A Device is one whose completion queues a test has put its own over.
type Device struct {
	backend.Device
	over  func(backend.CQ) backend.CQ
	under sync.Map // of each of the test's queues the one of the device
}

// Wrap returns d with over(q) in the place of each of its completion queues q. What over returns must be comparable.
func Wrap(d backend.Device, over func(q backend.CQ) backend.CQ) *Device {
	return &Device{Device: d, over: over}
}

// NewCQ makes a queue of the device, and the test's over it.
func (d *Device) NewCQ(c backend.CQConfig) (backend.CQ, error) {
	q, err := d.Device.NewCQ(c)
	if err != nil {
		return nil, err
	}
	over := d.over(q)
	d.under.Store(over, q)
	return over, nil
}

// NewQP makes a queue pair on the device's own queues.
func (d *Device) NewQP(c backend.QPConfig) (backend.QP, error) {
	c.SendCQ, c.RecvCQ = d.own(c.SendCQ), d.own(c.RecvCQ)
	return d.Device.NewQP(c)
}

// own is the device's queue under q.
func (d *Device) own(q backend.CQ) backend.CQ {
	if under, ok := d.under.Load(q); ok {
		return under.(backend.CQ)
	}
	return q
}
