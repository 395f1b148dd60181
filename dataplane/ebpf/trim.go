// SPDX-License-Identifier: Apache-2.0

// Package ebpf runs switch functions in the Linux kernel, as programs for its eBPF machine.
//
// [Attach] puts DCP's packet trimming (package switchfn/trim) at the entry of an interface: an XDP program that
// cuts data to their headers while they would wait too long for a port. The port's queue is virtual, one instant per interface,
// as trim.Meter has it: the program polices to a rate, it doesn't queue. So attach it where packets come in on
// their way to a slower link, and put a real queue behind it, such as HTB with a burst of 16 KiB or more, where one is wanted. The program
// and trim.Meter are equal in verdicts, bytes and state; a test runs both on the same packets.
//
// IPv4 packets with options, fragments, and IPv6 packets with extension headers are not touched, but they count for the port. It takes
// Linux 5.9 or later, and CAP_BPF with CAP_NET_ADMIN, or root.
package ebpf

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxKeep is the most bytes that the program leaves of a packet.
const maxKeep = 512

// Config describes a port.
type Config struct {
	// Rate is that of the port; a byte takes at most 4.29 ms of it.
	Rate units.Rate
	// Queue is how many bytes of backlog data find before they are trimmed.
	Queue units.Bytes
	// Keep is how much is left of a packet's frame, 61 to 512 bytes; 0: as much as its opcode needs. What a packet's headers don't
	// fit in isn't cut: with IPv6 and fewer than 74.
	Keep units.Bytes
	// Overhead is what each frame takes of the rate besides its bytes: 24 for Ethernet's FCS, preamble and gap.
	Overhead units.Bytes
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

// ErrGone is that the interface of a Trimmer is.
var ErrGone = errors.New("the interface is gone, and the trimmer with it")

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
	spec, err := loadTrim()
	if err != nil {
		return nil, err
	}
	t, err := load(spec, &m, uint32(c.Keep), false)
	if err != nil {
		return nil, err
	}
	if t.link, err = link.AttachXDP(link.XDPOptions{Program: t.objects.Trim, Interface: index}); err != nil {
		return nil, errors.Join(attachError(index, err), t.Close())
	}
	return t, nil
}

// attachError says in one line why the program is not on an interface.
func attachError(index int, err error) error {
	name := fmt.Sprintf("interface %d", index)
	if dev, unknown := net.InterfaceByIndex(index); unknown == nil {
		name = dev.Name
	}
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("attach to %s: it has another XDP program (ip link shows it): %w", name, unix.EBUSY)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("attach to %s: %w", name, errRights)
	}
	return fmt.Errorf("attach to %s: %w", name, err)
}

// errRights is os.ErrPermission. What the library says of it is advice for a program.
var errRights = fmt.Errorf("%w: it takes root, or CAP_BPF and CAP_NET_ADMIN", unix.EPERM)

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
	switch err := spec.LoadAndAssign(&t.objects, nil); {
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("load the program: %w", errRights)
	case err != nil:
		return nil, fmt.Errorf("load the program: %w", err)
	}
	if err := t.objects.Meters.Put(uint32(0), m); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Meter is the state of the port now, its counters among it.
func (t *Trimmer) Meter() (m trim.Meter, err error) {
	err = t.objects.Meters.Lookup(uint32(0), &m)
	return m, err
}

// Attached returns ErrGone when the interface has been removed: then nothing is trimmed any more.
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
