// SPDX-License-Identifier: Apache-2.0

package backendtest_test

import (
	"slices"
	"sync"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// A shim is a device with something wrong: each hook that is set takes the place of a method.
type shim struct {
	backend.Device
	peer *shim

	caps          func(*backend.Caps)
	poll          func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error)
	datagram      func([]byte) []byte
	next          func() units.Instant
	wait          func(inner backend.CQ, d units.Duration) error
	wake          func(inner backend.CQ)
	postWrites    func(q *shimQP, now units.Instant, w []backend.Write) (int, error)
	postDatagrams func(q *shimQP, now units.Instant, d []backend.Datagram) (int, error)
	connect       func(q *shimQP, peer backend.QPInfo) error
	info          func(*backend.QPInfo)
	expose        func(t *shimTable, n uint64, rg backend.Range) backend.Range
	exposed       func(err error) error
	startRevoke   func(t *shimTable, n uint64)
	revoked       func(t *shimTable, n uint64) bool
	regionClose   func(inner backend.Region) error
	closeDevice   func(inner backend.Device) error

	tables  []*shimTable
	mu      sync.Mutex // both directions of a test register at the same time
	regions []*shimRegion
}

type shimCQ struct {
	backend.CQ
	d     *shim
	saved []backend.Completion
}

type shimQP struct {
	backend.QP
	d     *shim
	cfg   backend.QPConfig
	saved []backend.Datagram
}

type shimTable struct {
	backend.Table
	d   *shim
	cfg backend.TableConfig
	// live is which message was exposed last in a slot.
	live map[uint64]uint64
	old  map[uint64][]byte // the memory of each message
}

type shimRegion struct {
	backend.Region
	d *shim
}

func (d *shim) Caps() backend.Caps {
	c := d.Device.Caps()
	if d.caps != nil {
		d.caps(&c)
	}
	return c
}

func (d *shim) Close() error {
	if d.closeDevice != nil {
		return d.closeDevice(d.Device)
	}
	return d.Device.Close()
}

func (d *shim) NewCQ(c backend.CQConfig) (backend.CQ, error) {
	q, err := d.Device.NewCQ(c)
	if err != nil {
		return nil, err
	}
	return &shimCQ{CQ: q, d: d}, nil
}

func (q *shimCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	if q.d.poll != nil {
		return q.d.poll(q, now, dst)
	}
	return q.CQ.Poll(now, dst)
}

func (q *shimCQ) Datagram(c *backend.Completion) []byte {
	if b := q.CQ.Datagram(c); q.d.datagram != nil {
		return q.d.datagram(b)
	}
	return q.CQ.Datagram(c)
}

func (q *shimCQ) Next() units.Instant {
	if q.d.next != nil {
		return q.d.next()
	}
	return q.CQ.Next()
}

func (q *shimCQ) Wait(d units.Duration) error {
	if q.d.wait != nil {
		return q.d.wait(q.CQ, d)
	}
	return q.CQ.Wait(d)
}

func (q *shimCQ) Wake() {
	if q.d.wake != nil {
		q.d.wake(q.CQ)
		return
	}
	q.CQ.Wake()
}

func (d *shim) NewQP(c backend.QPConfig) (backend.QP, error) {
	inner := c
	if q, ok := c.SendCQ.(*shimCQ); ok && q.d == d {
		inner.SendCQ = q.CQ
	}
	if q, ok := c.RecvCQ.(*shimCQ); ok && q.d == d {
		inner.RecvCQ = q.CQ
	}
	if t, ok := c.Table.(*shimTable); ok && t.d == d {
		inner.Table = t.Table
	}
	q, err := d.Device.NewQP(inner)
	if err != nil {
		return nil, err
	}
	return &shimQP{QP: q, d: d, cfg: c}, nil
}

func (q *shimQP) PostWrites(now units.Instant, w []backend.Write) (int, error) {
	if q.d.postWrites != nil {
		return q.d.postWrites(q, now, w)
	}
	return q.QP.PostWrites(now, w)
}

func (q *shimQP) PostDatagrams(now units.Instant, d []backend.Datagram) (int, error) {
	if q.d.postDatagrams != nil {
		return q.d.postDatagrams(q, now, d)
	}
	return q.QP.PostDatagrams(now, d)
}

func (q *shimQP) Connect(peer backend.QPInfo) error {
	if q.d.connect != nil {
		return q.d.connect(q, peer)
	}
	return q.QP.Connect(peer)
}

func (q *shimQP) Info() backend.QPInfo {
	i := q.QP.Info()
	if q.d.info != nil {
		q.d.info(&i)
	}
	return i
}

func (d *shim) NewTable(c backend.TableConfig) (backend.Table, error) {
	inner, err := d.Device.NewTable(c)
	if err != nil {
		return nil, err
	}
	t := &shimTable{Table: inner, d: d, cfg: c, live: map[uint64]uint64{}, old: map[uint64][]byte{}}
	d.tables = append(d.tables, t)
	return t, nil
}

func (t *shimTable) Expose(n uint64, r backend.Region, rg backend.Range) (uint32, uint64, error) {
	if s, ok := r.(*shimRegion); ok && s.d == t.d {
		r = s.Region
	}
	if t.d.expose != nil {
		rg = t.d.expose(t, n, rg)
	}
	rkey, va, err := t.Table.Expose(n, r, rg)
	if err == nil {
		t.live[n%uint64(t.cfg.Slots)] = n
		t.old[n] = r.Bytes()[rg.Offset : rg.Offset+rg.Length]
	} else if t.d.exposed != nil {
		err = t.d.exposed(err)
	}
	return rkey, va, err
}

func (t *shimTable) StartRevoke(n uint64) {
	if t.d.startRevoke != nil {
		t.d.startRevoke(t, n)
		return
	}
	t.Table.StartRevoke(n)
}

func (t *shimTable) Revoked(n uint64) bool {
	if t.d.revoked != nil {
		return t.d.revoked(t, n)
	}
	return t.Table.Revoked(n)
}

func (d *shim) Register(mem []byte, a backend.Access) (backend.Region, error) {
	r, err := d.Device.Register(mem, a)
	if err != nil {
		return nil, err
	}
	s := &shimRegion{r, d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.regions = append(d.regions, s)
	return s, nil
}

// registered are the regions that exist, in the order of their registration.
func (d *shim) registered() []*shimRegion {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.regions)
}

func (r *shimRegion) Close() error {
	if r.d.regionClose != nil {
		return r.d.regionClose(r.Region)
	}
	err := r.Region.Close()
	if err == nil { // its memory may be gone
		r.d.mu.Lock()
		defer r.d.mu.Unlock()
		r.d.regions = slices.DeleteFunc(r.d.regions, func(x *shimRegion) bool { return x == r })
	}
	return err
}
