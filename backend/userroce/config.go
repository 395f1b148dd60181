// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// AnyPort as Config.Port lets the kernel choose a free UDP port. Peers learn it from QPInfo. It is for
// peers that are userroce too; everything else expects port 4791.
const AnyPort uint16 = 0xffff

const (
	// MaxWorkers is the largest Config.Workers.
	MaxWorkers = 8
	// maxSendSockets bounds Config.SendSockets; the sockets of a device are file descriptors.
	maxSendSockets = 256
	// firstSendSockets are opened with the device, where it decides how many there are.
	firstSendSockets = 16

	defaultRecvBuffer = 8 * units.MiB
	defaultSendBuffer = 2 * units.MiB

	// firstSourcePort is where RoCEv2's source ports start (IBTA Annex 17.9.2: the dynamic range).
	firstSourcePort = 0xc000
)

// A Config says how to open a device. The zero value is a device on 127.0.0.1.
type Config struct {
	// Addr is a local IP address, 127.0.0.1 by default. All packets leave from it, and arrive at it.
	// A link-local IPv6 address needs its zone.
	Addr netip.Addr
	// Port is the UDP port to receive on; 0 stands for 4791, AnyPort for one that the kernel chooses.
	Port uint16
	// Workers is the number of receive sockets, 1 (the default) to MaxWorkers, and so of the workers that
	// can receive (Caps.Receivers): an Endpoint starts no more than that unless configured to. One worker takes
	// tens of Gbit/s. More of them are faster where each has a processor to itself, and slower elsewhere.
	Workers int
	// SendSockets is the number of sockets, and so of UDP source ports, to send from, 1 to 256: channel c of every queue
	// pair uses socket c mod SendSockets. By default it is 256, of which 16 are opened with the device, and others when
	// there is a queue pair of their channel: each channel has a source port of its own, by which networks choose paths.
	SendSockets int
	// RecvBuffer and SendBuffer are the sizes to ask for each socket's buffers, by default 8 MiB and
	// 2 MiB. The kernel may grant less. Where it grants less than half of RecvBuffer, a warning says which sysctl limits it.
	RecvBuffer, SendBuffer units.Bytes
	// AllowAnySource makes queue pairs accept packets from other addresses than their peer's, and with
	// the ICRC that is right for the address the peer announced: what comes out of an address
	// translator that keeps the source port. Packets to such a peer still go to the announced address.
	// Each translated packet costs a second ICRC computation.
	AllowAnySource bool
	// ECN makes data to peers whose Config says so too ECN-capable, ECT(0): queues that mark may mark it
	// instead of dropping it. Marked packets are answered with congestion notifications (CNP), for each
	// queue pair at most one each 50 µs, and those of the peer are reported as backend.KindCongestion. Set
	// it where the sender's rate follows the notifications; a sender whose rate doesn't takes more than its share.
	ECN bool
	// DSCP is the DiffServ code point of data, 0 to 63. Where it or ECN is set, control datagrams and CNPs
	// have CS6 (48).
	DSCP uint8
	// Trim makes data to peers whose Config says so too trimmable: a switch may cut a packet to its headers instead of
	// dropping it (docs/wire.md, "Trimmed packets"). The receiver sends the headers back, and the sender is notified of
	// the write as backend.KindTrimmed. Without TrimDSCP the two low bits of the DSCP are the tag that
	// tells data and what is left of it apart, and DSCP must be a multiple of 4.
	Trim bool
	// TrimDSCP is the code point with which the switches mark what they have cut, 1 to 63, where they are configured so
	// and know no tag, which is so with today's switches. Data then has DSCP itself as its code point. 0 stands for the tag.
	TrimDSCP uint8
	// Wire, when set, sees each packet in both directions. It turns segmentation offload and zero copy
	// on the sending side off.
	Wire backend.Wire
	// Logger gets warnings about the environment, never anything per packet. Default: slog.Default().
	Logger *slog.Logger
	// DisableGSO and DisableGRO turn the kernel's segmentation offloads off, to test how a device
	// works where there are none.
	DisableGSO, DisableGRO bool
	// Rand makes keys and numbers; crypto/rand by default. Tests set it to repeat a run.
	Rand io.Reader
}

// withDefaults returns c with zero values replaced, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	if !c.Addr.IsValid() {
		c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	c.Addr = c.Addr.Unmap()
	if c.Addr.IsUnspecified() || c.Addr.IsMulticast() {
		return c, operr.New("open", "userroce", "address %v: give the address of one interface, because packets carry a checksum over it", c.Addr)
	}
	c.Port = cmp.Or(c.Port, roce.UDPPort)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Rand = cmp.Or(c.Rand, rand.Reader)
	c.Workers = cmp.Or(c.Workers, 1)
	c.RecvBuffer = cmp.Or(c.RecvBuffer, defaultRecvBuffer)
	c.SendBuffer = cmp.Or(c.SendBuffer, defaultSendBuffer)
	switch {
	case c.Workers < 1 || c.Workers > MaxWorkers:
		return c, operr.New("open", "userroce", "%d workers: choose 1 to %d", c.Workers, MaxWorkers)
	case c.SendSockets < 0 || c.SendSockets > maxSendSockets:
		return c, operr.New("open", "userroce", "%d send sockets: choose 1 to %d", c.SendSockets, maxSendSockets)
	case c.DSCP > 63:
		return c, operr.New("open", "userroce", "DSCP %d: choose 0 to 63", c.DSCP)
	case c.TrimDSCP > 63:
		return c, operr.New("open", "userroce", "TrimDSCP %d: choose 1 to 63, or 0 for the tag", c.TrimDSCP)
	case c.TrimDSCP != 0 && (!c.Trim || c.TrimDSCP == c.DSCP || c.TrimDSCP == controlDSCP):
		return c, operr.New("open", "userroce", "TrimDSCP %d: set Trim, too, and choose another than DSCP, %d, and that of control, %d", c.TrimDSCP, c.DSCP, controlDSCP)
	case c.Trim && c.TrimDSCP == 0 && c.DSCP%4 != 0:
		return c, operr.New("open", "userroce", "DSCP %d: choose a multiple of 4, because with Trim its two low bits are the tag", c.DSCP)
	case c.RecvBuffer < 0 || c.RecvBuffer > units.GiB || c.SendBuffer < 0 || c.SendBuffer > units.GiB:
		return c, operr.New("open", "userroce", "socket buffers of %d and %d bytes: choose at most 1 GiB", c.RecvBuffer, c.SendBuffer)
	}
	return c, nil
}
