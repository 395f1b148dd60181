// SPDX-License-Identifier: Apache-2.0

package softroce

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// A Config says which device to open. The zero value takes the only rxe device there is.
type Config struct {
	// Device is the RDMA device's name, such as rxe0. With Netdev, it is the name to give a device
	// that is made; by default rxe_ and the interface's name.
	Device string
	// Netdev is the network interface. The rxe device that it has is taken, or one is made.
	Netdev string
	// Addr is the address to use, one of the interface's; by default an IPv4 one, else IPv6.
	Addr netip.Addr
	// GIDIndex, when not nil, chooses the entry of the device's GID table instead of Addr.
	GIDIndex *int
	// MTU is the path MTU that is wanted, 256 to 4096; Open fails, and says which interface MTU it
	// needs, when the device can't carry it. 0: whatever it carries.
	MTU units.Bytes
	// Logger and Rand are as in uc.Config.
	Logger *slog.Logger
	Rand   io.Reader
	// System is where devices are looked for; the zero value is the running system.
	System verbs.System
}

// Device is a Soft-RoCE device. Its methods may be called from any goroutine.
type Device struct {
	*uc.Device
	name string
	// made: Open made the rxe device, and Close removes it.
	made  bool
	close sync.Once
	err   error
}

var _ backend.Device = (*Device)(nil)

// Open finds or makes the rxe device and opens it.
func Open(cfg Config) (*Device, error) {
	name, made, err := find(cfg)
	if err != nil {
		return nil, err
	}
	dev, err := open(cfg, name)
	for since := time.Now(); made && errors.Is(err, uc.ErrNotReady) && time.Since(since) < readyWithin; {
		time.Sleep(readyPause)
		dev, err = open(cfg, name)
	}
	if err != nil {
		if made {
			err = errors.Join(err, removeLink(name))
		}
		return nil, err
	}
	return &Device{Device: dev, name: name, made: made}, nil
}

// A new device gets its addresses from a work queue of the kernel.
const (
	readyWithin = 2 * time.Second
	readyPause  = 5 * time.Millisecond
)

func open(cfg Config, name string) (*uc.Device, error) {
	dev, err := uc.Open(uc.Config{Device: name, Addr: cfg.Addr, GIDIndex: cfg.GIDIndex, Logger: cfg.Logger, Rand: cfg.Rand, System: cfg.System})
	if err != nil {
		return nil, operr.Wrap("open", "softroce", err)
	}
	if have := dev.Caps().PathMTU; cfg.MTU > have {
		err := operr.New("open", "softroce", "MTU %d: %s carries %d: %s", int64(cfg.MTU), name, int64(have), mtuFix(cfg, name))
		return nil, errors.Join(err, dev.Close())
	}
	return dev, nil
}

// mtuFix says how the interface gets an MTU that carries cfg.MTU.
func mtuFix(cfg Config, name string) string {
	netdev := cfg.Netdev
	if info, err := cfg.System.Lookup(name); netdev == "" && err == nil {
		netdev = info.Netdev
	}
	return fmt.Sprintf("rxe needs 80 bytes for headers: ip link set dev %s mtu %d", netdev, int64(cfg.MTU)+80)
}

// Name is the RDMA device's name.
func (d *Device) Name() string { return d.name }

// Caps says what the device can do.
func (d *Device) Caps() backend.Caps {
	c := d.Device.Caps()
	c.Backend = "softroce"
	return c
}

// Close closes the device, and removes it when Open has made it.
func (d *Device) Close() error {
	d.close.Do(func() {
		d.err = d.Device.Close()
		if d.made {
			d.err = errors.Join(d.err, removeLink(d.name))
		}
	})
	return d.err
}

// find names the rxe device of a Config, and makes it when the interface has none.
func find(cfg Config) (name string, made bool, err error) {
	all, bad := cfg.System.Devices()
	var rxe []verbs.DeviceInfo
	for _, d := range all {
		switch {
		case d.Driver != "rxe":
		case cfg.Netdev != "" && d.Netdev == cfg.Netdev, cfg.Netdev == "" && d.Name == cfg.Device:
			return d.Name, false, nil
		default:
			rxe = append(rxe, d)
		}
	}
	switch {
	case cfg.Netdev != "":
		name = cfg.Device
		if name == "" {
			name = "rxe_" + cfg.Netdev
		}
		return name, true, addLink(name, cfg.Netdev)
	case cfg.Device == "" && len(rxe) == 1:
		return rxe[0].Name, false, nil
	case bad != nil:
		return "", false, operr.Wrap("open", "softroce", bad)
	}
	return "", false, notFound(cfg.Device, rxe)
}

func notFound(want string, have []verbs.DeviceInfo) error {
	if len(have) == 0 {
		return operr.New("open", "softroce", "%w: no Soft-RoCE device: name a network interface to make one on, "+
			"or: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0", verbs.ErrNoDevice)
	}
	names := make([]string, len(have))
	for i, d := range have {
		names[i] = d.Name + " on " + d.Netdev
	}
	known := strings.Join(names, ", ")
	if want == "" {
		return operr.New("open", "softroce", "%w: choose one of %s", verbs.ErrNoDevice, known)
	}
	return operr.New("open", "softroce", "%w named %s: there are %s", verbs.ErrNoDevice, want, known)
}
