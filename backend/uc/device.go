// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	tables "github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// Device is one port of an RDMA device of the kernel. Its methods may be called from any goroutine.
type Device struct {
	cfg  Config
	log  *slog.Logger
	ctx  *verbs.Context
	pd   *verbs.PD
	gid  verbs.GIDEntry
	addr netip.Addr
	caps backend.Caps
	// maxCQE is how many entries the largest completion queue has.
	maxCQE int

	qps     qpnTable
	regions tables.Table[region]  // by index; changed while mu is held
	addrs   tables.Table[address] // by one less than the handle; changed while mu is held
	health  health
	intake  *intake
	// closing is closed when Close begins.
	closing chan struct{}

	counters struct {
		packetsSent, packetsReceived, bytesSent, bytesReceived atomic.Uint64
		// recalled are writes that were not sent because the peer had recalled their key.
		recalled atomic.Uint64
	}

	mu      sync.Mutex
	handles map[netip.Addr]*handle // address handles in use, by peer; +checklocks:mu
	idle    []*handle              // those without a user, the oldest first; +checklocks:mu
	closed  bool                   // +checklocks:mu
}

var _ backend.Device = (*Device)(nil)

// origin is the zero of every device's clock.
var origin = time.Now()

// Open opens a device. Close it, or the device can't be removed from the system.
func Open(cfg Config) (*Device, error) {
	cfg = cfg.withDefaults()
	ctx, err := cfg.System.Open(cfg.Device)
	if err != nil {
		return nil, operr.Wrap("open", cfg.name(), err)
	}
	d := &Device{cfg: cfg, ctx: ctx, log: cfg.Logger.With("device", cfg.Device), handles: map[netip.Addr]*handle{},
		closing: make(chan struct{})}
	d.health.next.Store(int64(d.Now().Add(checkEvery)))
	if err := d.start(); err != nil {
		return nil, errors.Join(err, ctx.Close())
	}
	return d, nil
}

// start chooses the GID, finds out what the device can do, and makes its protection domain.
func (d *Device) start() error {
	port, err := d.ctx.QueryPort(d.cfg.Port)
	if err != nil {
		return operr.Wrap("open", d.name(), err)
	}
	if err := checkPort(d.cfg.Device, d.cfg.Port, &port, d.netdev()); err != nil {
		return operr.Wrap("open", d.name(), err)
	}
	table, err := d.ctx.GIDTable()
	if err != nil {
		return operr.Wrap("open", d.name(), err)
	}
	if d.cfg.GIDIndex != nil {
		d.gid, err = gidAt(table, d.cfg.Device, d.cfg.Port, *d.cfg.GIDIndex)
	} else {
		d.gid, err = chooseGID(table, d.cfg.Device, d.cfg.Port, d.cfg.Addr)
	}
	if err != nil {
		return operr.Wrap("open", d.name(), err)
	}
	d.addr = d.gid.GID.Addr()
	attr, err := d.ctx.QueryDevice()
	if err != nil {
		return operr.Wrap("open", d.name(), err)
	}
	d.maxCQE = int(attr.MaxCQE)
	if d.pd, err = d.ctx.AllocPD(); err != nil {
		return operr.Wrap("open", d.name(), err)
	}
	d.intake = joinIntake(d)
	d.caps = makeCaps(port.ActiveMTU, d.addr.Is6(), d.ctx.DeregisterFences())
	d.caps.Backend, d.caps.Reliable = d.cfg.name(), d.reliable()
	if d.hasRootKeys() {
		d.caps.RootKey, d.caps.DeadKey, d.caps.Fence = true, backend.DeadKeyCompletes, backend.FenceTimed
	}
	return nil
}

// hasRootKeys tries whether the device makes and changes indirect keys; its firmware may refuse what its driver offers.
func (d *Device) hasRootKeys() bool {
	if _, ok := d.ctx.NullMkey(); !ok || !d.ctx.HasMkeys() || d.cfg.KeyPerMessage {
		return false
	}
	const entries, size = verbs.MkeyGroup, 1 << 20
	k, err := d.newRootKey(d.pd, entries, size)
	if err == nil {
		err = k.close()
	}
	if err != nil {
		d.log.Warn("indirect memory keys don't work", "err", err, "consequence", "each message is registered, by a call to the kernel")
	}
	return err == nil
}

// reliable says that data travels over RC queue pairs.
func (d *Device) reliable() bool { return d.cfg.Service == verbs.RC }

// name is the backend's name, for errors.
func (d *Device) name() string { return d.cfg.name() }

// netdev is the interface's name with a space before it, or nothing.
func (d *Device) netdev() string {
	if n := d.ctx.Info().Netdev; n != "" {
		return " " + n
	}
	return ""
}

func makeCaps(mtu verbs.MTU, ipv6, fence bool) backend.Caps {
	c := backend.Caps{
		DeadKey: backend.DeadKeySilent, Fence: backend.FenceTimed, HostPackets: true, NeedsReceives: true,
		MinMTU: roce.MTU256.Bytes(), MaxMTU: roce.MTU4096.Bytes(), PathMTU: units.Bytes(mtu.Bytes()),
		MaxDatagram: units.Bytes(mtu.Bytes()), RecvBurst: burstPackets * units.Bytes(mtu.Bytes()),
		HeaderBytes: roce.IPv4WriteImmOverhead,
	}
	if fence {
		c.Fence = backend.FenceProved
	}
	if ipv6 {
		c.HeaderBytes = roce.IPv6WriteImmOverhead
	}
	return c
}

// Caps says what the device can do.
func (d *Device) Caps() backend.Caps { return d.caps }

// Now reads the monotonic clock.
func (d *Device) Now() units.Instant { return units.Instant(time.Since(origin)) }

// Addr is the address behind the GID that the device uses.
func (d *Device) Addr() netip.Addr { return d.addr }

// GIDIndex is where that GID is in the port's table.
func (d *Device) GIDIndex() int { return d.gid.Index }

// Stats is a snapshot of the counters. A packet counts as sent when it is posted, as received when
// its completion is polled.
//
// Most of what the kernel drops is not seen. Only rxe shows how many packets it has taken from the wire, and so how many of them
// completed nothing. Those are counted in PacketsReceived too, without their bytes, and in Drops: as DropNoReceive when a
// queue pair was found without a receive since the last call, else as DropLate. These counts are right 10 ms after the last
// packet was in flight. They stand still while anybody outside this process has a queue pair on the device, because that one's
// packets could not be told from ours. When a process has opened several Devices on one device, the first one counts for all.
func (d *Device) Stats() backend.Stats {
	c := &d.counters
	late, refused := d.intake.unplaced(d)
	s := backend.Stats{
		PacketsSent: c.packetsSent.Load(), PacketsReceived: c.packetsReceived.Load() + late + refused,
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(),
	}
	late += c.recalled.Load()
	s.Drops[backend.DropLate], s.Drops[backend.DropNoReceive] = late, refused
	return s
}

// randomPSN draws the first packet sequence number of a queue pair.
func (d *Device) randomPSN() (uint32, error) {
	var b [4]byte
	if _, err := io.ReadFull(d.cfg.Rand, b[:]); err != nil {
		return 0, operr.New("connect", d.name(), "draw a packet sequence number: %w", err)
	}
	return binary.NativeEndian.Uint32(b[:]) & roce.PSNMask, nil
}

// Close destroys everything that is still open, in an order that the kernel allows, and closes the
// device. Calls that have begun, and later ones, return backend.ErrClosed.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.health.close()
	close(d.closing)
	d.intake.leave(d)
	return d.ctx.Close()
}
