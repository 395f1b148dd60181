// SPDX-License-Identifier: Apache-2.0

// Package devices maps the names that commands give to devices to what opens them. A program of
// one's own doesn't need it: it imports the backend that it wants, or package sdrnet, which opens a device by its name, too.
//
// The two are not built on each other. Of a device sdrnet leaves nothing to choose but name, address and port, owns it, and shows it to nobody;
// here a command chooses port, GID index, workers, code points and a Wire, and makes Soft-RoCE devices. What both do the same
// way, to take the near address where the device has it, is a few lines in each: to share them sdrnet would have to
// export a device, or a backend to have an option that only these two callers know.
package devices

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// Default is the device that needs nothing.
const Default = "userroce"

// AnyPort as Options.UDPPort lets the kernel choose.
const AnyPort = userroce.AnyPort

// Options are what a command can say about a device.
type Options struct {
	// Addr is the local address for RDMA packets. The device must have it.
	Addr netip.Addr
	// Near is the address to take without Addr: a kernel's device that lacks it chooses for itself.
	Near netip.Addr
	// UDPPort is the port to receive on, 0 for RoCEv2's 4791.
	UDPPort uint16
	// Port is the port of a kernel's device, from 1; 0 stands for 1.
	Port int
	// GIDIndex, when not nil, chooses the entry of the port's GID table, and so the address.
	GIDIndex *int
	// Workers is how many workers will poll the device.
	Workers int
	// ECN makes data ECN-capable, and DSCP is its code point. Only userroce does either.
	ECN  bool
	DSCP uint8
	// Trim makes data trimmable, and TrimDSCP is what marks what has been cut where that isn't the tag. Only userroce does it.
	Trim     bool
	TrimDSCP uint8
	// Wire, when set, sees each packet.
	Wire backend.Wire
	// Logger hears of what is worth telling an operator.
	Logger *slog.Logger
}

// An opener opens a device.
type opener func(Options) (backend.Device, error)

var openers = map[string]opener{
	"softroce": openSoftRoCE,
	"userroce": openUserRoCE,
}

// Names are the known names in order: the kinds of devices, then the RDMA devices of this machine, each also with reliable connections.
func Names() []string {
	names := slices.Sorted(maps.Keys(openers))
	found, _ := verbs.Devices() // those that can't be read are of no use here
	for _, d := range found {
		names = append(names, d.Name, rc.Prefix+d.Name)
	}
	return names
}

// find is the opener of a name, nil if there is none.
func find(name string) opener {
	if o := openers[name]; o != nil || !slices.Contains(Names(), name) {
		return o
	}
	if name, ok := strings.CutPrefix(name, rc.Prefix); ok {
		return func(o Options) (backend.Device, error) { return openVerbs(rc.Open, name, o) }
	}
	return func(o Options) (backend.Device, error) { return openVerbs(uc.Open, name, o) }
}

// Check says whether there is such a device, and which there are if not.
func Check(name string) error {
	if find(name) == nil {
		return fmt.Errorf("unknown device %q: choose one of %s", name, strings.Join(Names(), ", "))
	}
	return nil
}

// Open opens a device by its name.
func Open(name string, o Options) (backend.Device, error) {
	if err := Check(name); err != nil {
		return nil, err
	}
	return find(name)(o)
}

func openUserRoCE(o Options) (backend.Device, error) {
	if o.GIDIndex != nil || o.Port > 1 {
		return nil, fmt.Errorf("%s has no GID index and one port: choose its address with --addr, or a device of the kernel with --device", Default)
	}
	addr := o.Addr
	if !addr.IsValid() {
		addr = o.Near
	}
	d, err := userroce.Open(userroce.Config{
		Addr: addr, Port: o.UDPPort, Workers: o.Workers, ECN: o.ECN, DSCP: o.DSCP, Trim: o.Trim, TrimDSCP: o.TrimDSCP,
		Wire: o.Wire, Logger: o.Logger,
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w (here: --udp-port any, or --addr)", err)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}
