// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"errors"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config is the habits of all devices of a World.
type Config struct {
	// Name is the name of the backend in Caps and errors.
	Name string
	// MaxMTU bounds the MTU, MaxDatagram datagrams. HeaderBytes is what a packet takes on the wire besides
	// its payload. RecvBurst is how many payload bytes may wait to be polled on one CQ before more
	// are dropped; 0: no limit.
	MaxMTU, MaxDatagram, HeaderBytes, RecvBurst units.Bytes
	// KeyPerMessage gives each message a key of its own, and places zero-length writes without
	// checking their key, as rxe does. NoFullSequence leaves only slot and generation in addresses.
	KeyPerMessage, NoFullSequence bool
	// DeadKey is what a write through a dead address does.
	DeadKey backend.DeadKey
	// NeedsReceives bounds the writes and datagrams of a QP that wait to be polled to its RecvDepth.
	NeedsReceives bool
	// RevokeTime is how long after StartRevoke packets still land.
	RevokeTime units.Duration
	// NotifyInterval is the least time between two congestion notifications of a queue pair.
	NotifyInterval units.Duration
	// Trims: the network cuts packets to their headers.
	Trims bool
}

// A World is devices that share a clock and packets.
type World struct {
	// Now is the time that all devices show. The network moves it.
	Now netsim.Time
	// WakeAt makes the network's next event no later than at: what a device shows changes then by
	// itself. Needed with Config.RevokeTime only.
	WakeAt func(at netsim.Time)

	cfg     Config
	devices []*Device
	news    bool
	packets
}

// ErrVirtual is returned by CQ.Wait.
var ErrVirtual = errors.New("wait on a device in virtual time, where nothing happens by itself: advance its network instead")

// NewWorld makes a World without devices at time 0.
func NewWorld(c Config) *World { return &World{cfg: c} }

// Instant is Now in nanoseconds, rounded up.
func (w *World) Instant() units.Instant { return w.Now.Instant() }

// News reports whether something has come about since the last call that a Poll or Post would notice.
func (w *World) News() bool {
	n := w.news
	w.news = false
	return n
}

// Device returns a device by its number, in the order of NewDevice.
func (w *World) Device(i uint32) *Device { return w.devices[i] }

// NewDevice adds a device whose posts go to out.
func (w *World) NewDevice(addr netip.Addr, out Outlet) *Device {
	d := &Device{world: w, index: uint32(len(w.devices)), addr: addr, out: out}
	w.devices = append(w.devices, d)
	return d
}

// find returns the device with an address that d can reach; not d itself.
func (d *Device) find(addr netip.Addr) *Device {
	for _, o := range d.world.devices {
		if o.addr == addr && o != d {
			return o
		}
	}
	return nil
}

// noDevice says that nobody has an address, and who there is where that is one.
func (d *Device) noDevice(addr netip.Addr) error {
	if w := d.world; len(w.devices) == 2 {
		return d.errorf("connect", "no device with address %v on the other end of the link (it has %v)", addr, w.devices[1-d.index].addr)
	}
	return d.errorf("connect", "no device with address %v in this network", addr)
}

// errorf says which operation on the device failed, and why.
func (d *Device) errorf(op, format string, args ...any) error {
	return operr.New(op, d.world.cfg.Name, format, args...)
}

func (c *Config) caps() backend.Caps {
	return backend.Caps{
		Backend:       c.Name,
		RootKey:       !c.KeyPerMessage,
		FullSequence:  !c.NoFullSequence,
		DeadKey:       c.DeadKey,
		Fence:         backend.FenceProved,
		HostPackets:   true,
		Virtual:       true,
		Receivers:     1,
		NeedsReceives: c.NeedsReceives,
		MinMTU:        1,
		MaxMTU:        c.MaxMTU,
		PathMTU:       c.MaxMTU,
		MaxDatagram:   c.MaxDatagram,
		RecvBurst:     c.RecvBurst,
		HeaderBytes:   c.HeaderBytes,
		ECN:           true,
		Trims:         c.Trims,
	}
}
