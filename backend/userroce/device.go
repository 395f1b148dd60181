// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"cmp"
	"encoding/binary"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	tables "github.com/sdr-rdma/go-sdr/internal/table"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// Device is one user-space RoCEv2 port. Its methods may be called from any goroutine.
type Device struct {
	cfg   Config
	log   *slog.Logger
	addr  netip.Addr
	port  uint16
	scope uint32 // interface index of a link-local address
	ipv6  bool
	iface iface
	caps  backend.Caps

	receivers []*receiver
	senders   []*sender // grows to maxSendSockets at most; guarded by mu once the device is open
	gso       segmentation
	hold      hold
	gro       bool   // UDP_GRO works
	workers   uint32 // mask of the QPN bits that say which worker

	qps     qpnTable
	regions tables.Table[region] // by lkey>>lkeyTagBits; changed while mu is held
	peers   tables.Table[peer]   // by address handle; changed while mu is held
	sources sources              // changed while mu is held
	wire    wireCounters
	warned  [numWarnings][maxErrno]atomic.Bool

	mu     sync.Mutex
	closed bool                // +checklocks:mu
	random [256]byte           // +checklocks:mu
	unused []byte              // rest of random; +checklocks:mu
	tables map[*table]struct{} // +checklocks:mu
	cqs    map[*cq]struct{}    // +checklocks:mu
	// routes remembers the paths to peers for a moment, with the largest MTU that was found to fit, and never that one
	// did not fit, because the path's MTU may have grown since.
	routes map[netip.Addr]route // +checklocks:mu
}

var _ backend.Device = (*Device)(nil)

// origin is the zero of every userroce device's clock.
var origin = time.Now()

// Open opens a device. It fails when the UDP port is taken (PortTakenError), the address is not one of
// this host, or its interface carries no packets of even the smallest MTU (MTUError).
func Open(cfg Config) (*Device, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Device{
		cfg: cfg, log: cfg.Logger.With("device", "userroce", "addr", cfg.Addr), addr: cfg.Addr, ipv6: cfg.Addr.Is6(),
		workers: steerMask(cfg.Workers), tables: map[*table]struct{}{}, cqs: map[*cq]struct{}{},
		routes: map[netip.Addr]route{},
	}
	d.mu.Lock()
	err = d.fillRandom()
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if d.scope, err = scopeOf(cfg.Addr); err != nil {
		return nil, err
	}
	if d.iface, err = interfaceOf(cfg.Addr); err != nil {
		return nil, err
	}
	if err := checkMTU("open", roce.MTU256.Bytes(), d.iface.mtu, d.ipv6, "interface "+d.iface.name); err != nil {
		return nil, err
	}
	if err := d.openSockets(); err != nil {
		d.mu.Lock()
		d.closeSockets()
		d.mu.Unlock()
		return nil, err
	}
	d.caps = d.makeCaps()
	return d, nil
}

// openSockets opens the receive sockets, all on one port, and the send sockets.
func (d *Device) openSockets() error {
	port := d.cfg.Port
	if port == AnyPort {
		port = 0
	}
	fds, port, err := openReceiveSockets(d.addr, port, d.scope, d.cfg.Workers)
	if err != nil {
		return err
	}
	d.port = port
	d.gro = !d.cfg.DisableGRO
	for i, fd := range fds {
		d.receivers = append(d.receivers, newReceiver(d, fd, i))
	}
	for _, r := range d.receivers {
		if err := r.setUp(); err != nil {
			return err
		}
	}
	d.mu.Lock()
	err = d.openSenders(cmp.Or(d.cfg.SendSockets, firstSendSockets))
	d.mu.Unlock()
	if err != nil {
		return err
	}
	// This value is the socket's default, which each message may overrule. 0 is the kernel's own and changes nothing.
	first := d.senders[0]
	first.mu.Lock()
	probe := unix.SetsockoptInt(first.fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0)
	first.mu.Unlock()
	if probe != nil || d.cfg.DisableGSO || d.cfg.Wire != nil {
		d.gso.disable()
	}
	return nil
}

// openSenders opens send sockets until there are n. mu is held.
func (d *Device) openSenders(n int) error {
	for len(d.senders) < n {
		candidate := firstSourcePort
		for _, s := range d.senders {
			candidate = max(candidate, int(s.port)+1)
		}
		s, err := openSender(d, candidate)
		if err != nil {
			return err
		}
		s.number = len(d.senders)
		d.senders = append(d.senders, s)
	}
	return nil
}

// senderOf is the send socket of a channel. It is opened where the number of sockets is left to the device. mu is held.
func (d *Device) senderOf(channel int) (*sender, error) {
	n := channel % cmp.Or(d.cfg.SendSockets, maxSendSockets)
	if err := d.openSenders(n + 1); err != nil {
		return nil, err
	}
	return d.senders[n], nil
}

// closeSockets closes what openSockets has opened, which may be a part when that failed; mu is held.
func (d *Device) closeSockets() {
	for _, r := range d.receivers {
		r.countSocketDrops()
		unix.Close(r.fd)
	}
	for _, s := range d.senders {
		s.close()
	}
}

func (d *Device) makeCaps() backend.Caps {
	c := backend.Caps{
		Backend: "userroce", RootKey: true, FullSequence: true,
		DeadKey: backend.DeadKeySilent, Fence: backend.FenceProved, HostPackets: true, ECN: d.cfg.ECN, Trims: d.cfg.Trim, Receivers: len(d.receivers),
		MinMTU: roce.MTU256.Bytes(), MaxMTU: roce.MTU4096.Bytes(), MaxDatagram: roce.MTU4096.Bytes(),
		Inline:    true,
		RecvBurst: recvBurst(d.receivers[0].granted), HeaderBytes: roce.IPv4WriteImmOverhead,
	}
	if d.ipv6 {
		c.HeaderBytes = roce.IPv6WriteImmOverhead
	}
	if m, ok := roce.LargestMTU(d.iface.mtu, d.ipv6); ok {
		c.PathMTU = m.Bytes()
	}
	return c
}

// recvBurst is how many payload bytes a receive buffer holds for certain. The kernel charges a packet
// with the memory that it occupies. A buffer of 212992 bytes takes 48 packets of 4 KiB when the sender
// made them as a train, 25 when they come one by one, and 15 when a driver put them together; of
// 256-byte packets, 166. A driver that spends a page on each packet can do worse below 1 KiB.
func recvBurst(granted units.Bytes) units.Bytes { return granted / 6 }

// Caps says what the device can do.
func (d *Device) Caps() backend.Caps { return d.caps }

// Now reads the monotonic clock.
func (d *Device) Now() units.Instant { return units.Instant(time.Since(origin)) }

// Addr returns the address and UDP port at which the device receives.
func (d *Device) Addr() netip.AddrPort { return netip.AddrPortFrom(d.addr, d.port) }

// fillRandom draws from Config.Rand. Many numbers are drawn at a time because some are needed in calls
// that have no error to return. mu is held.
func (d *Device) fillRandom() error {
	if _, err := io.ReadFull(d.cfg.Rand, d.random[:]); err != nil {
		return operr.New("open", "userroce", "draw random numbers: %w", err)
	}
	d.unused = d.random[:]
	return nil
}

// random32 returns a random number. Device.mu is held. It panics when a source that worked at Open fails
// later, because keys would become predictable.
func (d *Device) random32() uint32 {
	if len(d.unused) < 4 {
		if err := d.fillRandom(); err != nil {
			panic(err)
		}
	}
	v := binary.NativeEndian.Uint32(d.unused)
	clear(d.unused[:4])
	d.unused = d.unused[4:]
	return v
}

// Close releases everything. It waits for calls of Poll, Wait and the post methods that have begun,
// none of which takes long; later ones return backend.ErrClosed.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	d.qps.all(d.closeQP)
	for t := range d.tables {
		t.closeLocked()
	}
	for c := range d.cqs {
		c.shut()
	}
	for t := range d.tables {
		d.reapTable(t)
	}
	d.closeSockets()
	return nil
}

// backOff yields while waiting for another goroutine to leave a short section.
func backOff(round int) {
	if round < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(100 * time.Microsecond)
}
