// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Device is a device behind an emulated link. Its concurrency rules are those
// of backend.Device.
type Device struct {
	inner backend.Device
	caps  backend.Caps
	// slack is how late a sleeping worker may be woken, so that more has
	// fallen due.
	slack units.Duration
	// burst is how many bytes of payload are passed on at a time, and pause
	// how long to wait after so many.
	burst units.Bytes
	pause units.Duration
	base  units.Instant // origin of the link's time

	closed atomic.Bool

	// addressMu is held to change addresses, and for reading by whoever passes datagrams on, so that none goes to a handle of the real
	// device that was closed meanwhile, and perhaps opened again for another peer.
	addressMu sync.RWMutex
	addresses table.Table[address] // by our handles

	mu sync.Mutex // guards the rest: posts of several QPs share the link
	// +checklocks:mu
	link *netsim.Link
	// +checklocks:mu
	last netsim.Time
	// +checklocks:mu
	own backend.Stats
}

// An address is what a handle stands for.
type address struct {
	real   backend.AddressHandle
	closed bool // guarded by Device.addressMu
}

var (
	_ backend.Device        = (*Device)(nil)
	_ backend.SizeRegistrar = (*Device)(nil)
)

// Wrap puts dev behind an emulated link. dev must not be used directly any more,
// except for closing it, which Close does too.
func Wrap(dev backend.Device, cfg Config) (*Device, error) {
	link, err := cfg.link()
	if err != nil {
		return nil, err
	}
	if cfg.MarkAbove > 0 && !dev.Caps().ECN {
		return nil, operr.New("wrap", "linkemu", "MarkAbove of %v on %s: its packets carry no marks; open a device that has Caps.ECN, such as userroce with Config.ECN", cfg.MarkAbove, dev.Caps().Backend)
	}
	link.Loss = burstInTime(link.Loss, cfg.TotalRate(), dev.Caps())
	d := &Device{inner: dev, caps: dev.Caps(), base: dev.Now(), link: netsim.NewLink(link, cfg.Seed)}
	d.caps.Inline = false // what is delayed is read when it leaves
	if delays := cfg.RTT != 0 || cfg.Rate != 0 || cfg.Jitter != 0 || cfg.ChannelDelay != nil || cfg.ChannelRate != nil; delays && !d.caps.Virtual {
		d.slack = coalescing(link.Delay)
	}
	d.limitBursts(cfg.TotalRate())
	return d, nil
}

// burstInTime gives bursts the length in time that their packets take at the link's rate.
func burstInTime(l netsim.Loss, r units.Rate, caps backend.Caps) netsim.Loss {
	if l.Burst <= 1 || r == 0 {
		return l
	}
	packet := min(caps.MaxMTU, caps.PathMTU) + caps.HeaderBytes
	l.BurstTime, l.Burst = max(1, r.Time(units.Bytes(l.Burst*float64(packet)))), 0
	return l
}

// catchUp is how many times the link's rate packets are passed on at after a
// delay of the worker, and leastCatchUp the least.
const (
	catchUp      = 4
	leastCatchUp = 10 * units.Gbit
)

// limitBursts keeps within what the receiver of a device of this kind can take
// back to back. Without a rate nothing says how long it needs for that.
func (d *Device) limitBursts(rate units.Rate) {
	d.burst = math.MaxInt64
	if d.caps.RecvBurst <= 0 {
		return
	}
	d.burst = max(1, d.caps.RecvBurst/2)
	if rate > 0 {
		d.pause = max(catchUp*rate, leastCatchUp).Time(d.burst)
	}
}

// Unwrap returns the real device.
func (d *Device) Unwrap() backend.Device { return d.inner }

// Caps implements backend.Device; they are those of the real device.
func (d *Device) Caps() backend.Caps { return d.caps }

// Now implements backend.Device.
func (d *Device) Now() units.Instant { return d.inner.Now() }

// Register implements backend.Device.
func (d *Device) Register(mem []byte, access backend.Access) (backend.Region, error) {
	return d.inner.Register(mem, access)
}

// RegisterSize implements backend.SizeRegistrar if the real device does.
func (d *Device) RegisterSize(n units.Bytes, access backend.Access) (backend.Region, error) {
	r, ok := d.inner.(backend.SizeRegistrar)
	if !ok {
		return nil, operr.New("register size", "linkemu", "memory without content on %s: %w", d.caps.Backend, errors.ErrUnsupported)
	}
	return r.RegisterSize(n, access)
}

// NewTable implements backend.Device.
func (d *Device) NewTable(c backend.TableConfig) (backend.Table, error) { return d.inner.NewTable(c) }

// OpenAddress implements backend.Device.
func (d *Device) OpenAddress(i backend.QPInfo) (backend.AddressHandle, error) {
	real, err := d.inner.OpenAddress(i)
	if err != nil {
		return 0, err
	}
	d.addressMu.Lock()
	defer d.addressMu.Unlock()
	h := d.addresses.Free()
	d.addresses.Set(h, &address{real: real})
	return backend.AddressHandle(h), nil
}

// CloseAddress implements backend.Device. Datagrams that still wait for the
// address are lost.
func (d *Device) CloseAddress(h backend.AddressHandle) error {
	d.addressMu.Lock()
	a := d.addresses.Get(uint32(h))
	if a != nil {
		a.closed = true
		d.addresses.Set(uint32(h), nil)
	}
	d.addressMu.Unlock()
	if a == nil {
		return operr.New("close address", "linkemu", "no such handle")
	}
	return d.inner.CloseAddress(a.real)
}

// Stats implements backend.Device: the real device's counters, and what this end
// lost and doubled. Packets that the link lost count as sent, and so do copies.
func (d *Device) Stats() backend.Stats {
	s := d.inner.Stats()
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Add(&d.own)
	return s
}

// Close implements backend.Device. What has not been passed on is lost.
func (d *Device) Close() error {
	d.closed.Store(true)
	return d.inner.Close()
}

// instant converts a time of the link to one of the device.
func (d *Device) instant(t netsim.Time) units.Instant {
	if t == netsim.Never {
		return units.Never
	}
	return d.base.Add(units.Duration(t.Instant()))
}

// time converts an instant of the device to the link's time.
func (d *Device) time(now units.Instant) netsim.Time { return netsim.Span(max(0, now.Sub(d.base))) }

// entry is when posted packets enter the link: not when their poster last looked at the clock, which may be before its
// program asked for them. They would arrive sooner than the link's delay allows.
func (d *Device) entry(now units.Instant) netsim.Time { return d.time(max(now, d.inner.Now())) }

// carry draws the fate of a packet.
//
// d.mu is held.
func (d *Device) carry(now netsim.Time, payload units.Bytes, channel int) netsim.Fate {
	// Each poster has read the clock for itself.
	d.last = max(d.last, now)
	f := d.link.Carry(d.link.Loss(), d.last, payload+d.caps.HeaderBytes, channel)
	switch {
	case f.Outcome == netsim.Lost:
		d.countDrop(backend.DropEmulatedLoss, payload)
	case f.Outcome == netsim.QueueFull:
		d.countDrop(backend.DropEmulatedQueue, payload)
	case f.Duplicated:
		d.own.Duplicated++
	}
	return f
}

// d.mu is held.
func (d *Device) countDrop(r backend.DropReason, payload units.Bytes) {
	d.own.Drops[r]++
	d.own.PacketsSent++
	d.own.BytesSent += uint64(payload)
}
