// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"errors"
	"sync"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A buffer is registered memory for one piece of a message.
type buffer struct {
	mem    []byte
	region *region
	off    units.Bytes
}

// A region is memory that was allocated and registered at once. Its memory outlives the connection while a
// Message that the application holds lies in it.
type region struct {
	mem []byte
	mr  *sdr.MR
	out int // buffers outside the pool
}

// A pool keeps the buffers of one direction of a connection.
type pool struct {
	endpoint *sdr.Endpoint
	access   sdr.Access
	size     units.Bytes

	mu      sync.Mutex
	free    []*buffer // +checklocks:mu
	regions []*region // +checklocks:mu
	closed  bool      // +checklocks:mu
}

// reserve makes n buffers at once.
func (p *pool) reserve(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grow(n)
}

// grow adds n buffers, which share a region; mu is held.
func (p *pool) grow(n int) error {
	mem, err := sdr.AllocBuffer(units.Bytes(n) * p.size)
	if err != nil {
		return err
	}
	mr, err := p.endpoint.RegisterMemory(mem, p.access)
	if err != nil {
		return errors.Join(err, sdr.FreeBuffer(mem))
	}
	r := &region{mem: mem, mr: mr}
	p.regions = append(p.regions, r)
	for i := range n {
		off := units.Bytes(i) * p.size
		p.free = append(p.free, &buffer{mem: mem[off : off+p.size : off+p.size], region: r, off: off})
	}
	return nil
}

// get takes a buffer, a new one if there is none.
func (p *pool) get() (*buffer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, sdr.ErrClosed
	}
	if len(p.free) == 0 {
		if err := p.grow(1); err != nil {
			return nil, err
		}
	}
	last := len(p.free) - 1
	b := p.free[last]
	p.free = p.free[:last]
	b.region.out++
	return b, nil
}

// put gives a buffer back. Nothing may use it any more, the network included.
func (p *pool) put(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.region.out--
	if !p.closed {
		p.free = append(p.free, b)
	} else if b.region.out == 0 {
		b.region.close()
	}
}

// close frees what nobody holds. The connection's transfers have ended.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.regions {
		if r.out == 0 {
			r.close()
		}
	}
	p.free, p.regions = nil, nil
}

// close frees the memory, unless the device failed to deregister it: then it stays allocated.
func (r *region) close() {
	if r.mr.Close() == nil {
		_ = sdr.FreeBuffer(r.mem)
	}
}
