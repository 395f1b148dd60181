// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// Link describes one direction of the link between the devices: Rate (a
// bottleneck behind the sender's NIC), Queue, MarkAbove and TrimAbove of that bottleneck, Trim,
// Delay, ChannelDelay, Jitter, Loss, Reorder and ReorderDelay, Duplicate,
// Corrupt. The zero value is a perfect link.
type Link = netsim.LinkConfig

// Loss describes how packets are lost: Drop, the fraction; Burst, the mean
// length of a burst; BurstDrop, the probability of loss within one.
type Loss = netsim.Loss

// Config describes the two devices and the link. The zero value is a pair of
// devices as permissive as can be, on a perfect link.
type Config struct {
	// Rate is the line rate of both devices; 0: no limit.
	Rate units.Rate
	// Link is the link in both directions, Back the one from B to A when it
	// differs.
	Link Link
	Back *Link
	// ControlLoss is how datagrams are lost, when not like writes; both
	// directions have it.
	ControlLoss *Loss
	// Seed makes the run repeatable. Every number is a seed.
	Seed uint64

	// HeaderBytes is what each packet takes of the rate besides its payload.
	HeaderBytes units.Bytes
	// MaxMTU bounds the MTU; 0: 1 MiB. There is no other rule for it.
	MaxMTU units.Bytes
	// MaxDatagram bounds datagrams; 0: 4096.
	MaxDatagram units.Bytes
	// RecvBurst is how many payload bytes may wait to be polled on one CQ
	// before more are dropped, as in a socket buffer; 0: no limit.
	RecvBurst units.Bytes

	// KeyPerMessage gives each exposed message a key of its own, silent when
	// dead, and places zero-length writes without checking their key, as rxe
	// does. It implies NoFullSequence.
	KeyPerMessage bool
	// NoFullSequence leaves only slot and generation in addresses.
	NoFullSequence bool
	// DeadKey is what a write through a dead address does.
	DeadKey backend.DeadKey
	// NeedsReceives bounds the writes and datagrams of a QP that wait to be
	// polled to its RecvDepth; polling one posts its receive again.
	NeedsReceives bool
	// RevokeTime is how long after StartRevoke packets still land, and
	// Revoked reports false.
	RevokeTime units.Duration
}

const (
	defaultMaxMTU      = units.MiB
	defaultMaxDatagram = units.Bytes(4096)
	// largestMTU keeps a packet's length in 32 bits.
	largestMTU = units.GiB
)

func (c *Config) setDefaults() {
	if c.MaxMTU == 0 {
		c.MaxMTU = defaultMaxMTU
	}
	if c.MaxDatagram == 0 {
		c.MaxDatagram = defaultMaxDatagram
	}
	if c.Back == nil {
		c.Back = &c.Link
	}
	if c.KeyPerMessage {
		c.NoFullSequence = true
	}
}

func (c *Config) validate() error {
	if c.Rate < 0 {
		return operr.New("new network", "sim", "rate %d bit/s: must not be negative (0: no limit)", int64(c.Rate))
	}
	if c.HeaderBytes < 0 || c.HeaderBytes > units.MiB {
		return operr.New("new network", "sim", "header of %d bytes: must be between 0 and 1 MiB", int64(c.HeaderBytes))
	}
	if c.MaxMTU < 1 || c.MaxMTU > largestMTU {
		return operr.New("new network", "sim", "MaxMTU of %d bytes: must be between 1 and 1 GiB", int64(c.MaxMTU))
	}
	if c.MaxDatagram < 1 || c.MaxDatagram > c.MaxMTU {
		return operr.New("new network", "sim", "MaxDatagram of %d bytes: must be between 1 and MaxMTU, %v", int64(c.MaxDatagram), c.MaxMTU)
	}
	if c.RecvBurst < 0 || c.RevokeTime < 0 {
		return operr.New("new network", "sim", "RecvBurst %d, RevokeTime %d: must not be negative", int64(c.RecvBurst), int64(c.RevokeTime))
	}
	if c.DeadKey > backend.DeadKeyEatsReceive {
		return operr.New("new network", "sim", "DeadKey %d is not one of the backend's behaviours", c.DeadKey)
	}
	if c.KeyPerMessage && c.DeadKey != backend.DeadKeySilent {
		return operr.New("new network", "sim", "with KeyPerMessage a dead key is silent: leave DeadKey at DeadKeySilent")
	}
	if err := c.Link.Validate(); err != nil {
		return operr.New("new network", "sim", "link: %w", err)
	}
	if err := c.Back.Validate(); err != nil {
		return operr.New("new network", "sim", "link back: %w", err)
	}
	if c.ControlLoss != nil {
		if err := c.ControlLoss.Validate(); err != nil {
			return operr.New("new network", "sim", "control loss: %w", err)
		}
	}
	return nil
}

// habits are those of the devices.
func (c *Config) habits() virtual.Config {
	return virtual.Config{
		Name: "sim", MaxMTU: c.MaxMTU, MaxDatagram: c.MaxDatagram, HeaderBytes: c.HeaderBytes, RecvBurst: c.RecvBurst,
		KeyPerMessage: c.KeyPerMessage, NoFullSequence: c.NoFullSequence, DeadKey: c.DeadKey,
		NeedsReceives: c.NeedsReceives, RevokeTime: c.RevokeTime, NotifyInterval: virtual.DCQCNInterval,
		Trims: true,
	}
}
