// SPDX-License-Identifier: Apache-2.0

package fabricdev

import (
	"net/netip"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// Config describes the network and its devices.
type Config struct {
	// Fabric is everything about the network. Its MTU is the largest of a queue pair, its Header what
	// each packet takes on the wire besides its payload. Lost must be nil.
	Fabric fabric.Config
	// Class is the traffic class of writes, 1 to 3; 0: fabric.DataClass.
	Class uint8
	// NotifyInterval is the least time between two congestion notifications of a queue pair; 0: 50 µs.
	NotifyInterval units.Duration
}

const (
	defaultMTU    = 4096 // those of fabric.Config
	defaultHeader = 64
	maxDatagram   = units.Bytes(4096)
)

// A Network is a fabric with devices on some of its hosts, and their clock.
type Network struct {
	fabric *fabric.Sim
	world  *virtual.World
	class  uint8
	trims  bool    // switches cut writes to their headers
	ports  []*port // by number of the device
	byNode map[int]*Device
	// streams are by number in the fabric: nil for its own flows.
	streams []*stream
	// tags identify what is in flight as packet i of world; 0: nothing. serial is the last one given.
	tags   []uint32
	serial uint32
}

// New makes a network at instant 0. The graph must not change afterwards.
func New(g *topo.Graph, c Config) (*Network, error) {
	if c.Fabric.Lost != nil {
		return nil, operr.New("new network", "fabricdev", "Config.Fabric.Lost is for the devices: leave it nil")
	}
	if c.Class >= fabric.Classes || c.NotifyInterval < 0 {
		return nil, operr.New("new network", "fabricdev", "class %d, notification interval of %d ns: the class must be below %d, the interval not negative", c.Class, int64(c.NotifyInterval), fabric.Classes)
	}
	habits := virtual.Config{Name: "fabricdev", MaxMTU: c.Fabric.MTU, HeaderBytes: c.Fabric.Header, NotifyInterval: c.NotifyInterval, Trims: c.Fabric.Trim != nil}
	if habits.MaxMTU == 0 {
		habits.MaxMTU = defaultMTU
	}
	if habits.HeaderBytes == 0 {
		habits.HeaderBytes = defaultHeader
	}
	if habits.NotifyInterval == 0 {
		habits.NotifyInterval = virtual.DCQCNInterval
	}
	habits.MaxDatagram = min(maxDatagram, habits.MaxMTU)
	n := &Network{world: virtual.NewWorld(habits), class: max(c.Class, fabric.DataClass), trims: habits.Trims, byNode: make(map[int]*Device)}
	c.Fabric.Lost = n.lost
	var err error
	n.fabric, err = fabric.New(g, c.Fabric)
	return n, err
}

// Fabric is the simulation, for flows beside the devices, failures and results. Move its clock through
// the Network only.
func (n *Network) Fabric() *fabric.Sim { return n.fabric }

// Device returns the device on a host, a node of the graph, and makes it the first time.
func (n *Network) Device(node int) (*Device, error) {
	if d := n.byNode[node]; d != nil {
		return d, nil
	}
	if !n.fabric.IsHost(node) {
		return nil, operr.New("new network", "fabricdev", "device on node %d, which is not a host", node)
	}
	p := &port{net: n, node: node}
	a := fabric.Address(node)
	addr := netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
	d := &Device{n.world.NewDevice(addr, p)}
	n.ports = append(n.ports, p)
	n.byNode[node] = d
	return d, nil
}

// Now is the time that all devices show.
func (n *Network) Now() units.Instant { return n.world.Instant() }

// Next is when the next thing happens in the fabric, units.Never when nothing will.
func (n *Network) Next() units.Instant { return n.fabric.Next().Instant() }

// Advance lets everything happen that is due up to and including to, and sets the clock to to. It has
// no effect when to is earlier than Now.
func (n *Network) Advance(to units.Instant) {
	until := des.At(to)
	if until < n.world.Now {
		return
	}
	n.fabric.Advance(until)
	n.world.Now = n.fabric.Now()
}

// Run is Advance, but ends sooner when something has come about that a Poll or a post of one of the
// devices would notice; the clock then shows when. It also ends when nothing more will happen.
func (n *Network) Run(to units.Instant) {
	until := des.At(to)
	n.world.News()
	for !n.world.News() {
		next := n.fabric.Next()
		if next == des.Never || next > until {
			n.Advance(to)
			return
		}
		n.fabric.Advance(next)
		n.world.Now = n.fabric.Now()
	}
}

// send makes packet i, which is about to leave, one of the fabric.
func (n *Network) send(i uint32, k transport.Kind) transport.Packet {
	for int(i) >= len(n.tags) {
		n.tags = append(n.tags, 0)
	}
	if n.serial++; n.serial == 0 {
		n.serial++
	}
	n.tags[i] = n.serial
	return transport.Packet{
		Sent: n.Now(), PSN: i, Expected: n.serial, Payload: uint16(n.world.Packet(i).Length), Kind: k,
	}
}

// identify finds the packet that x is, once; false for a packet that a switch has made.
func (n *Network) identify(x *transport.Packet) (i uint32, ok bool) {
	i = x.PSN
	if int(i) >= len(n.tags) || x.Expected == 0 || n.tags[i] != x.Expected {
		return 0, false
	}
	n.tags[i] = 0
	return i, true
}

// lost is fabric.Config.Lost.
func (n *Network) lost(flow int, x *transport.Packet, full bool) {
	if n.stream(flow) == nil {
		return
	}
	i, ok := n.identify(x)
	if !ok {
		return
	}
	reason := backend.DropEmulatedLoss
	if full {
		reason = backend.DropEmulatedQueue
	}
	n.world.Lose(i, reason)
}

func (n *Network) stream(flow int) *stream {
	if flow < len(n.streams) {
		return n.streams[flow]
	}
	return nil
}
