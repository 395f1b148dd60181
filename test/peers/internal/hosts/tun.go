// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	tunName = "link"
	// tunQueue is how many packets wait for this process to read them, more
	// than a stack sends at once.
	tunQueue = 20000
)

// openTUN makes and configures the device in this thread's namespace.
func openTUN(c Config) (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/net/tun: %w", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			fd = -1
		}
	}()
	r, err := unix.NewIfreq(tunName)
	if err != nil {
		return fd, err
	}
	r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return fd, fmt.Errorf("TUNSETIFF: %w", err)
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fd, err
	}
	defer unix.Close(s)
	return fd, configure(s, c)
}

// configure gives the device its properties and brings it and the loopback up.
func configure(s int, c Config) error {
	type step struct {
		device, what string
		request      uint
		set          func(*unix.Ifreq) error
	}
	steps := []step{
		{tunName, "address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(c.Addr.AsSlice()) }},
		{tunName, "netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }},
		{tunName, "MTU", unix.SIOCSIFMTU, number(uint32(c.MTU))},
		{tunName, "up", unix.SIOCSIFFLAGS, up},
		{"lo", "up", unix.SIOCSIFFLAGS, up},
	}
	for i, a := range c.More {
		alias := fmt.Sprintf("%s:%d", tunName, i) // SIOCSIFADDR on it adds an address
		steps = append(steps,
			step{alias, "address", unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(a.AsSlice()) }},
			step{alias, "netmask", unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }})
	}
	if err := lengthen(); err != nil {
		return err
	}
	for _, x := range steps {
		r, err := unix.NewIfreq(x.device)
		if err == nil {
			err = x.set(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(s, x.request, r)
		}
		if err != nil {
			return fmt.Errorf("device %s, %s: %w", x.device, x.what, err)
		}
	}
	return nil
}

// lengthen sets the device's queue, by netlink: the ioctl wants privilege over the whole machine, and this only over
// the namespace.
func lengthen() error {
	device, err := netlink.LinkByName(tunName)
	if err == nil {
		err = netlink.LinkSetTxQLen(device, tunQueue)
	}
	if err != nil {
		return fmt.Errorf("device %s, queue: %w", tunName, err)
	}
	return nil
}

func number(n uint32) func(*unix.Ifreq) error {
	return func(r *unix.Ifreq) error { r.SetUint32(n); return nil }
}

func up(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
