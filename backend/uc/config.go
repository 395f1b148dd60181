// SPDX-License-Identifier: Apache-2.0

package uc

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// A Config says which device to open. Only Device is needed.
type Config struct {
	// Device is the RDMA device's name, such as rxe0 or mlx5_0.
	Device string
	// Port is the device's port, from 1, which is the default.
	Port int
	// Addr is the address to use, one of those behind the port's GIDs. The peer's must be of the
	// same family. By default an IPv4 address is taken, else an IPv6 one, a link-local one last.
	Addr netip.Addr
	// GIDIndex, when not nil, chooses the entry of the port's GID table instead of Addr.
	GIDIndex *int
	// KeyPerMessage registers each message under a key of its own also on devices with indirect keys.
	KeyPerMessage bool
	// Service is the transport service of the queue pairs that data travels over: verbs.UC, which is the default, or
	// verbs.RC. With the latter the device is what package rc says of its own.
	Service verbs.QPType
	// Logger gets what happens to the device, never single packets. Default: slog.Default().
	Logger *slog.Logger
	// Rand makes packet sequence numbers; crypto/rand by default. Tests set it to repeat a run.
	Rand io.Reader
	// System is where devices are looked for; the zero value is the running system.
	System verbs.System
}

func (c Config) withDefaults() Config {
	c.Port = cmp.Or(c.Port, 1)
	c.Service = cmp.Or(c.Service, verbs.UC)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Rand = cmp.Or(c.Rand, rand.Reader)
	return c
}

// name is the backend's name, for errors.
func (c Config) name() string {
	if c.Service == verbs.RC {
		return "rc"
	}
	return "uc"
}

const (
	// burstPackets is how many packets a receiver takes back to back: a quarter of the kernel's queue
	// between a soft device's interface and the protocol (net.core.netdev_max_backlog, 1000 packets).
	burstPackets = 256
	// checkEvery is how often the device is asked whether it is still there.
	checkEvery = units.Second
)
