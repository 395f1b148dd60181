// SPDX-License-Identifier: Apache-2.0

// Package ebpf runs switch functions in the Linux kernel, as programs for its eBPF machine.
//
// [Attach] puts DCP's packet trimming (package switchfn/trim) at the entry of an interface: an XDP program that
// cuts data to their headers while they would wait too long for a port. The port's queue is virtual, one instant per interface,
// as trim.Meter has it: the program polices to a rate, it doesn't queue. So attach it where packets come in on
// their way to a slower link, and put a real queue behind it, such as HTB with a burst of 16 KiB or more, where one is wanted. The program
// and trim.Meter are equal in verdicts, bytes and state; a test runs both on the same packets.
//
// # Limits
//
// Interfaces of Ethernet only: tunnels of IP packets, such as tun, wireguard and ipip, are refused. IPv4 packets with options, fragments,
// IPv6 packets with extension headers, and frames with a VLAN tag are not touched, but they count for the port. A tag that the interface
// takes off and keeps beside the frame isn't there for an XDP program (ethtool -k: rx-vlan-offload; an end of a veth pair gets frames so):
// such frames are cut, and have it again when they go on. At the VLAN's own interface (eth1.7), where the kernel runs the program, frames have none.
//
// Where a driver has no XDP of its own, as that of lo, the kernel runs the program behind it (ip link shows xdpgeneric). Packets of this
// machine that are to be cut up later (UDP_SEGMENT) are still one frame there: of those that are cut the headers of the first stay, and the
// others are lost unseen. So have them sent one by one: ip link set dev lo gso_max_segs 1. The same happens to packets for this machine's programs
// that an interface underneath, as that of a VLAN or a macvlan, has put together (UDP_GRO, which userroce asks for). So have it leave them apart:
// ethtool -K eth1 gro off. The interface that the program is on does so by itself.
//
// An XDP program doesn't know of checksums that the kernel has left to an interface further on. Packets of this machine's own containers
// have such ones, when they come in through a veth pair; of those that are cut the interface makes wrong ones, and their receiver drops
// them, unless it is on this machine, too. So switch that off where they are sent: ethtool -K eth0 tx off.
//
// It takes Linux 5.9 or later, and root or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN. Before Linux 5.11 what it loads counts against
// RLIMIT_MEMLOCK, which RemoveMemlock of the library's package rlimit lifts. Drivers take XDP programs up to an MTU of their own, about 3500
// where a page has 4096 bytes, and some take none as their interface is set up: a bond with a link that has no XDP, or virtio whose host puts
// packets together. With [Config.Generic] the kernel runs the program behind them.
package ebpf

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxKeep is the most bytes that the program leaves of a packet.
const maxKeep = 512

// Config describes a port.
type Config struct {
	// Rate is that of the port, 10 kbit/s to 8 Tbit/s, of which a byte takes whole picoseconds, rounded down.
	Rate units.Rate
	// Queue is how many bytes of backlog data find before they are trimmed.
	Queue units.Bytes
	// Keep is how much is left of a packet's frame, 61 to 512 bytes; 0: as much as its opcode needs. What a packet's headers don't
	// fit in isn't cut: with IPv6 and fewer than 74.
	Keep units.Bytes
	// Overhead is what each frame takes of the rate besides its bytes: 24 for Ethernet's FCS, preamble and gap.
	Overhead units.Bytes
	// Generic has the kernel run the program behind the driver even where that has XDP of its own: slower, and with any MTU.
	Generic bool
}

// meter is the state with which a port begins.
func (c *Config) meter() (trim.Meter, error) {
	switch {
	case c.Rate < units.Mbit/100 || c.Rate > 8000*units.Gbit:
		return trim.Meter{}, fmt.Errorf("a port of %v: choose 10 kbit/s to 8 Tbit/s", c.Rate)
	case c.Queue < 1 || c.Queue > units.GiB:
		return trim.Meter{}, fmt.Errorf("a queue of %v: choose 1 byte to 1 GiB", c.Queue)
	case c.Keep != 0 && (c.Keep <= trim.HeaderSize || c.Keep > maxKeep):
		return trim.Meter{}, fmt.Errorf("%d bytes left of a packet: choose %d to %d, or 0 for its headers", int64(c.Keep), trim.HeaderSize+1, maxKeep)
	case c.Overhead < 0 || c.Overhead > 1<<16:
		return trim.Meter{}, fmt.Errorf("%d bytes of overhead: choose 0 to 65536", int64(c.Overhead))
	}
	return trim.Meter{
		PSPerByte: uint32(8e12 / uint64(c.Rate)), Overhead: uint32(c.Overhead), Limit: uint64(c.Rate.Time(c.Queue)),
	}, nil
}

// Validate says what is wrong with c, as Attach does.
func (c *Config) Validate() error {
	_, err := c.meter()
	return err
}

// ErrGone is that a Trimmer's program isn't on its interface any more. The kernel says as much of one that has been removed, and of
// a program that somebody has detached (bpftool link detach).
var ErrGone = errors.New("nothing is trimmed any more: the interface is gone, or the program was detached from it")

// A Trimmer is the program on one interface.
type Trimmer struct {
	objects trimObjects
	link    link.Link
}

// Attach puts the program on an interface of the caller's network namespace, by its index. It is there until
// Close, or until the process ends.
func Attach(index int, c Config) (*Trimmer, error) {
	m, err := c.meter()
	if err != nil {
		return nil, err
	}
	if err := checkFrames(index); err != nil {
		return nil, err
	}
	spec, err := loadTrim()
	if err != nil {
		return nil, err
	}
	t, err := load(spec, &m, uint32(c.Keep), false)
	if err != nil {
		return nil, err
	}
	o := link.XDPOptions{Program: t.objects.Trim, Interface: index}
	if c.Generic {
		o.Flags = link.XDPGenericMode
	}
	if t.link, err = link.AttachXDP(o); err != nil {
		return nil, errors.Join(attachError(index, release(), err), t.Close())
	}
	return t, nil
}

// checkFrames says so where what comes in is no Ethernet frame: the program would find no packet in it, and drop what it should cut.
func checkFrames(index int) error {
	dev, err := netlink.LinkByIndex(index)
	if err != nil {
		return fmt.Errorf("attach to interface %d: %w", index, err)
	}
	if a := dev.Attrs(); a.EncapType != "ether" && a.EncapType != "loopback" {
		return fmt.Errorf("attach to %s: its packets have no Ethernet header (ip link shows link/%s): choose one of Ethernet", a.Name, a.EncapType)
	}
	return nil
}

// attachError says in one line why the program is not on an interface, on a kernel of a release.
func attachError(index int, release string, err error) error {
	name, mtu := fmt.Sprintf("interface %d", index), 0
	if dev, unknown := net.InterfaceByIndex(index); unknown == nil {
		name, mtu = dev.Name, dev.MTU
	}
	const ethernet = 1500
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("attach to %s: it has another XDP program (ip link shows it): %w", name, unix.EBUSY)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("attach to %s: %w", name, errRights)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL) && isOld(release): // the library looks for links of any program, which are there since 5.7
		return fmt.Errorf("attach to %s: Linux %s has no links of XDP programs: run %s or later (%w)", name, release, leastLinux, err)
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EINVAL) && mtu > ethernet: // veth says the one, drivers of NICs the other
		smaller := 3000
		if mtu <= smaller && mtu > ethernet {
			smaller = ethernet
		}
		return fmt.Errorf("attach to %s: its MTU of %d, or that of a veth's other end, is too large for an XDP program: ip link set dev %s mtu %d, or "+generic+" (%w)", name, mtu, name, smaller, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL): // what is in the way, drivers tell netlink's users alone
		long := "" // bnxt, mvneta and stmmac say so of a frame that is too long, too
		if mtu > ethernet {
			long = fmt.Sprintf("an MTU of %d, ", mtu)
		}
		return fmt.Errorf("attach to %s: its driver refuses XDP programs as it is set up (%sLRO, GRO in hardware, a bond's link without XDP): "+
			"change that, or "+generic+" (%w)", name, long, err)
	}
	return fmt.Errorf("attach to %s: %w", name, err)
}

// leastLinux is the first release with all that the program and its link need.
const leastLinux = "Linux 5.9"

// isOld reports whether a release is before leastLinux. That alone refuses nothing: distributions carry such things back.
func isOld(release string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return n == 2 && (major < 5 || major == 5 && minor < 9)
}

// release is that of the kernel, such as 6.1.0-9-amd64.
func release() string {
	var u unix.Utsname
	_ = unix.Uname(&u) // fails for bad addresses alone
	return unix.ByteSliceToString(u.Release[:])
}

const generic = "have the kernel run it behind the driver, which is slower (Generic, --generic)"

const rights = "root, not that of a user namespace, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"

// errRights is os.ErrPermission. What the library says of it is advice for a program.
var errRights = fmt.Errorf("%w: it takes %s", unix.EPERM, rights)

// loadError says in one line why the program could not be loaded, on a kernel of a release.
func loadError(release string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("load the program: %w; before Linux 5.11 also 64 KiB that may be locked (ulimit -l)", errRights)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("load the program: this kernel is built without eBPF (CONFIG_BPF_SYSCALL), or a sandbox keeps it away: run it outside (%w)", unix.ENOSYS)
	case errors.Is(err, unix.EACCES): // the length of a frame is a difference of pointers, which takes CAP_PERFMON (allow_ptr_leaks of the verifier)
		return fmt.Errorf("load the program: the kernel's verifier refuses it; it takes %s, and %s: %w", rights, leastLinux, err)
	case isOld(release): // loops, data sections and wider jumps are refused in words that only who knows verifiers understands
		return fmt.Errorf("load the program: Linux %s refuses it: run %s or later (%w)", release, leastLinux, err)
	}
	return fmt.Errorf("load the program: %w", err)
}

// load loads the program of an object; with ownClock it takes the time from a variable.
func load(spec *ebpf.CollectionSpec, m *trim.Meter, keep uint32, ownClock bool) (*Trimmer, error) {
	own := uint8(0)
	if ownClock {
		own = 1
	}
	if err := errors.Join(spec.Variables[trimVarKeep].Set(keep), spec.Variables[trimVarOwnClock].Set(own)); err != nil {
		return nil, err
	}
	t := new(Trimmer)
	if err := spec.LoadAndAssign(&t.objects, nil); err != nil {
		return nil, loadError(release(), err)
	}
	if err := t.objects.Meters.Put(uint32(0), m); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Meter is the state of the port now, its counters among it: between two packets, with the program's lock.
func (t *Trimmer) Meter() (m trim.Meter, err error) {
	err = t.objects.Meters.LookupWithFlags(uint32(0), &m, ebpf.LookupLock)
	return m, err
}

// Attached returns ErrGone when the interface has been removed, or the program taken off it: then nothing is trimmed any more.
func (t *Trimmer) Attached() error {
	info, err := t.link.Info()
	if err != nil {
		return err
	}
	if x := info.XDP(); x != nil && x.Ifindex == 0 {
		return ErrGone
	}
	return nil
}

// Close takes the program off its interface. Nothing of it is left.
func (t *Trimmer) Close() error {
	var err error
	if t.link != nil {
		err = t.link.Close()
	}
	return errors.Join(err, t.objects.Close())
}
