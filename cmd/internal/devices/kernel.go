// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// Kernels says whether a device is the kernel's, and not a program's own.
func Kernels(name string) bool { return name != Default }

// A kernelDevice is one that verbs opened.
type kernelDevice interface {
	backend.Device
	Addr() netip.Addr
	GIDIndex() int
}

// kernelsOwn says what the kernel's devices can't do.
func kernelsOwn(o Options) error {
	switch {
	case o.Wire != nil:
		return errors.New("packets of the kernel's RDMA devices don't pass through this program: capture them with tcpdump on the network interface")
	case o.UDPPort != 0 && o.UDPPort != roce.UDPPort:
		return fmt.Errorf("the kernel's RDMA devices use UDP port %d only", roce.UDPPort)
	case o.GIDIndex != nil && o.Addr.IsValid():
		return errors.New("--gid-index and --addr both choose the address: leave one out")
	}
	return nil
}

func openSoftRoCE(o Options) (backend.Device, error) {
	if err := kernelsOwn(o); err != nil {
		return nil, err
	}
	if o.Port > 1 {
		return nil, fmt.Errorf("port %d: a Soft-RoCE device has one, port 1", o.Port)
	}
	return openNear(o, func(addr netip.Addr) (kernelDevice, error) {
		return softroce.Open(softroce.Config{Addr: addr, GIDIndex: o.GIDIndex, Logger: o.Logger})
	})
}

func openVerbs(open func(uc.Config) (*uc.Device, error), name string, o Options) (backend.Device, error) {
	if err := kernelsOwn(o); err != nil {
		return nil, err
	}
	return openNear(o, func(addr netip.Addr) (kernelDevice, error) {
		return open(uc.Config{Device: name, Port: o.Port, Addr: addr, GIDIndex: o.GIDIndex, Logger: o.Logger})
	})
}

// openNear opens with the address that was asked for, else with the near one if the device has it.
func openNear(o Options, open func(netip.Addr) (kernelDevice, error)) (backend.Device, error) {
	var d kernelDevice
	err := uc.ErrNotReady
	if !o.Addr.IsValid() && o.Near.IsValid() && o.GIDIndex == nil {
		d, err = open(o.Near)
	}
	if errors.Is(err, uc.ErrNotReady) {
		d, err = open(o.Addr)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Describe names the address that a device has, and with a kernel's device its GID's index.
func Describe(d backend.Device) string {
	switch d := d.(type) {
	case kernelDevice:
		return fmt.Sprintf("%v (GID index %d)", d.Addr(), d.GIDIndex())
	case interface{ Addr() netip.AddrPort }:
		return d.Addr().String()
	}
	return "unknown address"
}

// What a path MTU needs of the interface beside it.
const (
	rxeHeaders    = 80 // RXE_MAX_HDR_LENGTH
	kernelHeaders = 96 // what iboe_get_mtu takes off
)

// CheckMTU says what to do when the device of a name can't carry a path MTU.
func CheckMTU(name string, d backend.Device, want units.Bytes) error {
	have := d.Caps().PathMTU
	if want <= have {
		return nil
	}
	need, netdev := want+d.Caps().HeaderBytes, "INTERFACE"
	if Kernels(name) {
		need = want + rxeHeaders
		if d, ok := d.(interface{ Name() string }); ok {
			name = d.Name() // of Soft-RoCE's only device
		}
		if info, err := (verbs.System{}).Lookup(strings.TrimPrefix(name, rc.Prefix)); err == nil {
			if info.Driver != "rxe" {
				need = want + kernelHeaders
			}
			if info.Netdev != "" {
				netdev = info.Netdev
			}
		}
	}
	return fmt.Errorf("MTU %d: %s carries packets of %d at most: choose %d, or give its network interface %d or more at both ends: ip link set dev %s mtu %d",
		int64(want), name, int64(have), int64(have), int64(need), netdev, int64(need))
}
