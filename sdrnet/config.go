// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend/linkemu"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Config says how to connect. A nil Config and the zero value are the default: user-space RoCEv2,
// scheme adaptive, a rate that is found.
type Config struct {
	// Device is "" for user-space RoCEv2, which needs nothing, or the name of an RDMA device of the
	// kernel, such as "rxe0". The ends may differ in it. With "rc:" before its name the device carries data over reliable
	// connections (package backend/rc), which both ends must have; it repeats what is lost, so that scheme none suits.
	Device string
	// Scheme makes the reliability scheme of a connection. Both ends must use the same. It is called twice for each
	// connection, by a Listener from several goroutines at once, and returns a new one each time. Default:
	// adaptive.New(adaptive.Config{}).
	Scheme func() (scheme.Scheme, error)
	// Rate bounds what is sent, in user data. 0: the rate is found.
	Rate units.Rate
	// TLS protects the meeting over TCP. A server needs a certificate. The data is not encrypted.
	TLS *tls.Config
	// Addr is the local address of RDMA packets. Default: the local address of the TCP connection.
	Addr netip.Addr
	// UDPPort is the local port of RDMA packets on user-space RoCEv2. Default: RoCEv2's 4791 for a
	// Listener and for peers on a device of the kernel, which know no other, or else a free one. 65535
	// is no port but userroce.AnyPort: a free one in any case.
	UDPPort uint16
	// Silence is after what time without a sign of life a connection fails, and a quarter later, but 5 s at most, without
	// progress of a transfer that is being sent. Connecting fails after a sixth of it, but not before 5 s, if nothing is heard:
	// where a round trip takes 10 s or more choose more than six of them. Default 30 s, at least 100 ms.
	Silence units.Duration
	// Window is how many messages the peer can have under way, 1 to 256; each holds a buffer of
	// BufferSize here, whose memory is taken when a message first needs it. Default 64.
	Window int
	// BufferSize is the length of these buffers, 4 KiB to 16 MiB. Longer messages use several and cost
	// one copy more. Default 256 KiB.
	BufferSize units.Bytes
	// MaxMessage is the longest message that Recv accepts: a peer that sends a longer one loses the
	// connection, and its calls fail with an *oob.PeerError that says so. Default 64 MiB, at least BufferSize, at most 64 GiB.
	// A peer can make this end take so much memory from the Go heap, of which up to 64 MiB as soon as it announces a message: choose no
	// more than this host can spare for each connection.
	MaxMessage units.Bytes
	// Link, if it changes anything, is emulated for what this end sends, and sending is paced to its rate. Its marks
	// (MarkAbove) make data ECN-capable, if both ends have some; they are for user-space RoCEv2.
	Link linkemu.Config
	// PrivateData is what the peer gets while the two connect, as RDMA CM's private data, at most 4 KiB: what it
	// needs to know to decide whether it wants this connection (Conn.PeerPrivateData).
	PrivateData []byte
	// Logger gets what an operator should know, nothing per packet. Default: slog.Default().
	Logger *slog.Logger
}

const (
	defaultSilence    = 30 * units.Second
	minSilence        = 100 * units.Millisecond
	defaultWindow     = 64
	maxWindow         = 256
	defaultBufferSize = 256 * units.KiB
	minBufferSize     = 4 * units.KiB
	maxBufferSize     = 16 * units.MiB
	defaultMaxMessage = 64 * units.MiB
	maxMaxMessage     = 64 * units.GiB
	maxPrivateData    = 4 * units.KiB
)

// Validate says what is wrong with c, if anything, naming the allowed range, as an *operr.Error that wraps sdr.ErrArgument. Listen and Dial ask it,
// too.
func (c *Config) Validate() error {
	_, err := c.complete()
	return err
}

// complete returns a copy with the defaults filled in.
func (c *Config) complete() (*Config, error) {
	var f Config
	if c != nil {
		f = *c
	}
	if f.Scheme == nil {
		f.Scheme = func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) }
	}
	f.Silence = cmp.Or(f.Silence, defaultSilence)
	f.Window = cmp.Or(f.Window, defaultWindow)
	f.BufferSize = cmp.Or(f.BufferSize, defaultBufferSize)
	f.MaxMessage = cmp.Or(f.MaxMessage, max(defaultMaxMessage, f.BufferSize))
	f.Logger = cmp.Or(f.Logger, slog.Default())
	return &f, f.check()
}

// noProgress is after what time without progress a transfer fails: later than after silence, so that a peer that has died isn't taken for one
// that lives and takes nothing.
func (c *Config) noProgress() units.Duration {
	return max(c.Silence, c.Silence+min(c.Silence/4, 5*units.Second))
}

func (c *Config) check() error {
	bad := func(format string, a ...any) error {
		return operr.Argument("configure", "sdrnet", format, a...)
	}
	switch {
	case c.Silence < minSilence:
		return bad("Config.Silence is %v: choose at least %v", c.Silence, units.FormatDuration(minSilence))
	case c.Window < 1 || c.Window > maxWindow:
		return bad("Config.Window is %d: choose 1 to %d", c.Window, maxWindow)
	case c.BufferSize < minBufferSize || c.BufferSize > maxBufferSize:
		return bad("Config.BufferSize is %d bytes: choose %v to %v", c.BufferSize, minBufferSize, maxBufferSize)
	case c.MaxMessage < c.BufferSize:
		return bad("Config.MaxMessage is %d bytes: choose at least BufferSize, %d", c.MaxMessage, c.BufferSize)
	case c.MaxMessage > maxMaxMessage:
		return bad("Config.MaxMessage is %d bytes: choose at most %v, or send what is longer with SendMemory or SendFrom", c.MaxMessage, maxMaxMessage)
	case c.Rate < 0:
		return bad("Config.Rate is %v: it can't be negative", c.Rate)
	case c.Device == "userroce": // what sdr-perf's -d calls the default
		return bad("Config.Device is %q, which is no device of the kernel: leave it empty for user-space RoCEv2", c.Device)
	case c.Device != "" && c.UDPPort != 0:
		return bad("Config.UDPPort is %d: %s is a device of the kernel, which uses port 4791 only; leave it 0", c.UDPPort, c.Device)
	case units.Bytes(len(c.PrivateData)) > maxPrivateData:
		return bad("Config.PrivateData has %d bytes: at most %v can be told", len(c.PrivateData), maxPrivateData)
	}
	if err := c.Link.Validate(); err != nil {
		return bad("Config.Link: %v", err)
	}
	return nil
}
