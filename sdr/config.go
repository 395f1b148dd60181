// SPDX-License-Identifier: Apache-2.0

package sdr

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/units"
)

// Manual, as EndpointConfig.Workers, starts no goroutine: the caller runs
// Endpoint.Progress. It is the only mode on devices with a virtual clock.
const Manual = -1

// EndpointConfig configures an Endpoint. The zero value is the default.
type EndpointConfig struct {
	// Workers is the number of progress goroutines, 1 to 8, or Manual.
	// Default: DefaultWorkers, and no more than can receive
	// on the device (backend.Caps.Receivers). Workers beyond those only send.
	// With more than one, and a device that copies what it sends (backend.Caps.Inline),
	// the channels of each QP are divided among all workers for sending.
	Workers int
	// Spin is how long an idle worker polls before it sleeps; a wake-up
	// costs tens of microseconds. One that a waiting caller runs polls for up
	// to four times as long where that pays, and, where the process may use more than one processor, for
	// half as long as it has worked, up to 10 ms. Default 50 µs; negative: never spin.
	Spin units.Duration
	// CPUs, if not empty, ties worker i to processor CPUs[i modulo their
	// number], by a thread of its own. It helps where processors are set aside
	// for workers; elsewhere leave it empty: polls are 1.6 to 2.5 times slower
	// from a locked thread. Not with Manual workers.
	CPUs []int
	// CQEntries is the size of each worker's completion queue, at least 64. Default 16384.
	CQEntries int
	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
	// Rand is the source of connection ids; only tests and simulations set
	// it. Default crypto/rand.
	Rand io.Reader
	// Engine, if not nil, turns completions of data packets into chunk bits
	// instead of the workers: a device's, which takes them itself. It serves
	// this Endpoint alone.
	Engine dpa.Engine
}

// Split is how the 32-bit immediate is divided.
type Split = dpa.Split

// DefaultSplit is the paper's 10|18|4.
var DefaultSplit = dpa.DefaultSplit

// QPConfig configures a QP. The zero value of each field is its default. Both
// ends must agree on MTU, Channels, Generations, Split and MaxMessage.
type QPConfig struct {
	// MTU is the payload of a packet: 256 to 4096, a power of two, on devices
	// of the IBTA. Default: the largest that the local interface carries.
	MTU units.Bytes
	// Chunk is what one bit of the receiver's bitmap covers: a multiple of
	// the MTU. Default: 16 packets.
	Chunk units.Bytes
	// Channels is the number of paths that a message is spread over, 1 to
	// 256. Default 4.
	Channels int
	// Generations is the number of times that a slot number is used before
	// a late packet could be mistaken, 1 to 16, a power of two. Default 4.
	Generations int
	// Split divides the immediate. Default 10|18|4.
	Split Split
	// MaxMessage is the longest message: a power of two of at most the
	// split's packets times the MTU, which is the default.
	MaxMessage units.Bytes
	// SendDepth is the number of packets of each channel that may be posted
	// and not completed, 64 to 2^20. Default 1024.
	SendDepth int
	// Silence is how long the peer may be silent while work is pending.
	// At least 10 ms, default 30 s.
	Silence units.Duration
	// ConnectTimeout bounds the check that full-size packets arrive; four
	// round trips, as they are measured, come on top, and on a path that carries
	// the peer's packets, but no answer yet to ours, as much time again. The round
	// trip must be shorter than it. At least 1 ms, default 5 s.
	ConnectTimeout units.Duration
	// MSL is how long a packet may live in the network; it matters only on
	// devices that can't distinguish messages by their full sequence. Default 250 ms + 4 RTT.
	MSL units.Duration
	// Driver, if not nil, is the reliability layer that runs on the QP.
	Driver Driver
}

// maxChannels is as many as a byte of Info tells apart, and as STrack has paths.
const maxChannels = 256

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

func (c *QPConfig) fill(caps backend.Caps) {
	setDefault(&c.MTU, caps.PathMTU)
	setDefault(&c.Chunk, 16*c.MTU)
	setDefault(&c.Channels, 4)
	setDefault(&c.Generations, 4)
	setDefault(&c.Split, DefaultSplit)
	setDefault(&c.SendDepth, 1024)
	setDefault(&c.Silence, 30*units.Second)
	setDefault(&c.ConnectTimeout, 5*units.Second)
	if c.MaxMessage == 0 && c.Split.Check() == nil {
		c.MaxMessage = units.Bytes(c.Split.MaxPackets()) * c.MTU
	}
}

func powerOfTwo[T int | units.Bytes](v T) bool { return v > 0 && v&(v-1) == 0 }

func (c *QPConfig) check(caps backend.Caps) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: %s", ErrArgument, fmt.Sprintf(format, a...))
	}
	if err := c.Split.Check(); err != nil {
		return bad("%v", err)
	}
	switch {
	case c.MTU < caps.MinMTU || c.MTU > caps.MaxMTU || !powerOfTwo(c.MTU):
		return bad("MTU %d: want a power of two from %d to %d", c.MTU, caps.MinMTU, caps.MaxMTU)
	case c.MTU > caps.PathMTU:
		return bad("MTU %d: the local interface carries at most %d; raise the interface's MTU or lower this one", c.MTU, caps.PathMTU)
	case c.Chunk < c.MTU || c.Chunk%c.MTU != 0:
		return bad("chunk %d: want a multiple of the MTU %d", c.Chunk, c.MTU)
	case c.Channels < 1 || c.Channels > maxChannels:
		return bad("%d channels: want 1 to %d", c.Channels, maxChannels)
	case c.Generations < 1 || c.Generations > 16 || !powerOfTwo(c.Generations):
		return bad("%d generations: want 1, 2, 4, 8 or 16", c.Generations)
	case !powerOfTwo(c.MaxMessage) || c.MaxMessage < c.MTU || c.MaxMessage > units.Bytes(c.Split.MaxPackets())*c.MTU:
		return bad("largest message %d: want a power of two from %d to %d", c.MaxMessage, c.MTU, units.Bytes(c.Split.MaxPackets())*c.MTU)
	case c.SendDepth < 64 || c.SendDepth > 1<<20:
		return bad("send depth %d: want 64 to %d packets", c.SendDepth, 1<<20)
	case c.Silence < 10*units.Millisecond || c.ConnectTimeout < units.Millisecond || c.MSL < 0:
		return bad("silence limit and connect timeout must be at least 10 ms and 1 ms, MSL not negative")
	}
	return nil
}
