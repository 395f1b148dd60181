// SPDX-License-Identifier: Apache-2.0

// Package hosts makes emulated hosts: network namespaces without a name, each
// with a TUN device as its only way out. A namespace lives as long as its Host and
// the processes in it, and the device as long as the Host, so nothing is left
// behind however this process ends. The processes are the measuring program again, as its Sides.
package hosts

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// A Host is a network namespace with a TUN device.
type Host struct {
	addr netip.Addr
	tun  int
	work chan func()
}

// A Config describes a Host.
type Config struct {
	// Addr is the IPv4 address of the device, in a network of 24 bits.
	Addr netip.Addr
	// More addresses of the same device, in the same network.
	More []netip.Addr
	// MTU is that of the device, in bytes of IP packets.
	MTU int
	// Sysctls are names under /proc/sys and what to set them to, in this
	// namespace only.
	Sysctls map[string]string
}

// ErrPrivilege is wrapped by New's error without the right to make namespaces.
var ErrPrivilege = errors.New("making a network namespace needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN)")

// New makes a host.
func New(c Config) (*Host, error) {
	h := &Host{addr: c.Addr, tun: -1, work: make(chan func())}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: a thread in a namespace must not come back into use
		made <- h.build(c)
		for f := range h.work {
			f()
		}
	}()
	if err := <-made; err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// build runs on the thread that lives in the namespace.
func (h *Host) build(c Config) (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if errors.Is(err, unix.EPERM) {
			return ErrPrivilege
		}
		return fmt.Errorf("network namespace: %w", err)
	}
	for name, value := range c.Sysctls {
		// Which namespace /proc/sys/net shows depends on the thread that opens it.
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			return err
		}
	}
	h.tun, err = openTUN(c)
	return err
}

// Addr is the host's address.
func (h *Host) Addr() netip.Addr { return h.addr }

// TUN is the descriptor that gives the packets that the host sends and takes
// those that it receives. It is the Host's.
func (h *Host) TUN() int { return h.tun }

// Start starts a process on the host.
func (h *Host) Start(cmd *exec.Cmd) error {
	err := make(chan error)
	h.work <- func() { err <- cmd.Start() } // a process begins in the namespace of the thread that makes it
	return <-err
}

// Close removes the host. Processes on it lose their network.
func (h *Host) Close() {
	close(h.work)
	if h.tun >= 0 {
		_ = unix.Close(h.tun)
	}
}
