// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"math/bits"

	"github.com/sdr-rdma/go-sdr/fabric/des"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// Classes is the number of traffic classes of a port. Class 0 carries acknowledgements,
// notifications, trimmed headers and PFC, goes first and is never paused, marked or limited.
const Classes = 4

// DataClass is the class of flows that don't name one.
const DataClass = 1

// Config describes everything but the graph and the flows. The zero value is a network of switches
// with endless buffers, ECMP, and go-back-N without congestion control.
type Config struct {
	// MTU is the payload of a full packet; 0: 4096. Header is what each data packet takes on the
	// wire besides; 0: 64. AckSize is the size of acknowledgements and notifications; 0: 64.
	// PauseSize is that of a PFC frame; 0: 64. A packet has at most 65535 bytes.
	MTU, Header, AckSize, PauseSize units.Bytes
	// Transport makes the two ends of each flow; nil: go-back-N.
	Transport transport.Factory
	// Latency is what each switch adds to the delay of links that lead to it.
	Latency units.Duration

	Routing Routing
	Buffer  Buffer
	// ECN marks packets; the first entry that fits a port's rate counts. Nil: no marking.
	ECN []ECN
	// INT has switches write telemetry into data packets and probes as they leave, the first
	// congestion.MaxHops of a path; feedback brings it to the sender. Its bytes are not added to packets: let
	// Header and AckSize have them.
	INT bool
	// Weights are those of classes 1 to 3; 0: 1. Class 0 has none.
	Weights [Classes]int
	// Trim has switches cut data to their headers where they would drop them; nil: none.
	Trim *Trim
	// Forced is the probability with which each switch loses a data packet although it has room: trims it with
	// Trim, else drops it.
	Forced float64
	// Faults are those of links, beside the drop rates that the graph gives.
	Faults []Fault
	// Function makes the function of a switch; nil, or a nil result: none.
	Function func(node int) switchfn.Func

	// Lost is told of each packet that will not arrive: full says that a queue or the memory of a
	// switch was, not that a link, a function or a missing route took it. It must not call the Sim.
	Lost func(flow int, p *transport.Packet, full bool)

	// Seed makes the run repeatable. Every number is a seed.
	Seed uint64
	// Queue tunes the event queue. It changes no result.
	Queue des.Config
	// CheckEvery has Check run after so many events; Run and Step then panic with what it found. 0:
	// never. Per-flow conservation is counted only if it is set.
	CheckEvery uint64
	// PortCounters counts packets and bytes of each port: see Sim.Port. It costs a few percent.
	PortCounters bool
}

// Routing says how a switch chooses among equally short ways to a destination.
type Routing struct {
	Mode RoutingMode
	Hash Hash
	// Choices is how many ports, drawn for each packet, LeastQueue compares; 0: all.
	Choices int
	// Weighted has LeastQueue compare how long what waits will take instead of how much it is, so that ports are
	// used in proportion to their rates.
	Weighted bool
	// Gap is the pause in a flow after which Flowlet chooses anew; 0: 50 µs.
	Gap units.Duration
}

// RoutingMode is a way to choose among ports.
type RoutingMode uint8

// The modes.
const (
	// ECMP hashes the flow: one path for all its packets.
	ECMP RoutingMode = iota
	// Entropy hashes the flow and the packet's entropy: the sender chooses.
	Entropy
	// Random draws for each packet.
	Random
	// LeastQueue takes the port with the fewest bytes waiting, ties at random: all ports, or as DRILL
	// (Ghorbani et al., SIGCOMM 2017) a few drawn for each packet.
	LeastQueue
	// Flowlet stays on a port until a flow pauses, then draws (LetFlow, Vanini et al., NSDI 2017).
	Flowlet
)

// Hash is a hash for ECMP.
type Hash uint8

// The hashes.
const (
	// Mix is a 64-bit finalizer over flow, entropy and switch.
	Mix Hash = iota
	// Murmur is ns-3's: MurmurHash3 (32 bit) over source address, destination address and ports, seeded
	// with the number of the switch, modulo the number of ports.
	Murmur
	// Symmetric gives a flow and its acknowledgements the same value.
	Symmetric
)

// Buffer describes the memory of every switch.
type Buffer struct {
	// Size is what all ports of a switch share; 0: endless.
	Size units.Bytes
	// PFC pauses the sender of a class before its packets would be dropped (IEEE 802.1Qbb).
	// It needs a Size. Without it queues drop at their tail.
	PFC bool
	// Lossless is how many classes are paused, from class 1 on; 0: 1. The others drop when no memory is left.
	Lossless int
	// Shift makes an ingress pause when it uses more than the free memory shifted right by it, at
	// the rate of the slowest host link; one less for each doubling of the rate. 0: 3.
	Shift int
	// Reserve is memory that each ingress and class has for itself; 0: 4 KiB, negative: none.
	Reserve units.Bytes
	// Resume is how far below the threshold an ingress must fall to resume; 0: 3 KiB.
	Resume units.Bytes
	// Headroom is memory for what still arrives after a pause.
	Headroom HeadroomRule
	// Deep are switches (numbers of nodes) with endless memory, which neither pause nor drop.
	Deep []int
	// headroomLess takes so much away from each headroom, by which tests show that it is the least that never drops.
	headroomLess units.Bytes

	// QueueLimit bounds each queue of classes 1 to 3; 0: no fixed limit.
	QueueLimit units.Bytes
	// Alpha bounds each queue without PFC to so many times the free memory (Choudhury and Hahne,
	// "Dynamic Queue Length Thresholds", 1998), in 1/8: 8 is α = 1. 0: 8.
	Alpha int
}

// HeadroomRule is the way in which headroom is sized.
type HeadroomRule uint8

// The ways.
const (
	// HeadroomExact is the least that never drops, whatever the sizes of packets: what can arrive after the packet that caused
	// a pause, and that packet.
	HeadroomExact HeadroomRule = iota
	// HeadroomNS3 is three times rate times delay, as in the simulator of HPCC.
	HeadroomNS3
)

// ECN is a RED profile for ports of one rate, or of all.
type ECN struct {
	// Rate of the ports; 0: all.
	Rate units.Rate
	// KMin bytes left in the packet's queue mark nothing, more than KMax mark every packet; in
	// between the probability rises to PMax.
	KMin, KMax units.Bytes
	PMax       float64
}

// A Fault is what is wrong with one direction, or both, of a link.
type Fault struct {
	Link int // index in the graph
	// Loss is how packets are lost on the wire.
	Loss netsim.Loss
	// OneWay spares the direction from B to A.
	OneWay bool
}

const (
	defaultMTU     = 4096
	defaultHeader  = 64
	defaultControl = 64
	defaultReserve = 4 * units.KiB
	defaultResume  = 3 * units.KiB
	defaultShift   = 3
	defaultAlpha   = 8
	defaultGap     = 50 * units.Microsecond
	largestPacket  = 65535
	largestBuffer  = units.TiB
)

func orDefault[T int | units.Bytes | units.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (c *Config) setDefaults() {
	orDefault(&c.MTU, defaultMTU)
	orDefault(&c.Header, defaultHeader)
	orDefault(&c.AckSize, defaultControl)
	orDefault(&c.PauseSize, defaultControl)
	orDefault(&c.Buffer.Shift, defaultShift)
	orDefault(&c.Buffer.Reserve, defaultReserve)
	c.Buffer.Reserve = max(c.Buffer.Reserve, 0)
	if c.Trim != nil {
		t := *c.Trim
		orDefault(&t.Header, trim.HeaderSize)
		c.Trim = &t
	}
	orDefault(&c.Buffer.Resume, defaultResume)
	orDefault(&c.Buffer.Lossless, 1)
	orDefault(&c.Buffer.Alpha, defaultAlpha)
	orDefault(&c.Routing.Gap, defaultGap)
	for i := range c.Weights {
		orDefault(&c.Weights[i], 1)
	}
	if c.Transport == nil {
		c.Transport = (&rc.Config{}).Factory()
	}
}

// validate looks at c after setDefaults.
func (c *Config) validate() error {
	for _, s := range []struct {
		name string
		v    units.Bytes
	}{{"MTU", c.MTU}, {"header", c.Header}, {"ACK", c.AckSize}, {"PFC frame", c.PauseSize}} {
		if s.v < 1 || s.v > largestPacket {
			return operr.New("configure", "fabric", "%s of %d bytes: must be between 1 and %d", s.name, int64(s.v), largestPacket)
		}
	}
	if c.MTU+c.Header > largestPacket {
		return operr.New("configure", "fabric", "MTU %d with a header of %d: a packet has at most %d bytes", int64(c.MTU), int64(c.Header), largestPacket)
	}
	if c.Latency < 0 || c.Latency > units.Second {
		return operr.New("configure", "fabric", "switch latency of %d ns: must be between 0 and 1 s", int64(c.Latency))
	}
	for i, w := range c.Weights {
		if w < 1 || w > 1000 {
			return operr.New("configure", "fabric", "weight %d of class %d: must be between 1 and 1000", w, i)
		}
	}
	if c.Routing.Mode > Flowlet || c.Routing.Hash > Symmetric || c.Routing.Choices < 0 || c.Routing.Gap < 0 {
		return operr.New("configure", "fabric", "routing %+v: unknown mode or hash, or a negative number", c.Routing)
	}
	for _, e := range c.ECN {
		if e.KMin < 0 || e.KMax < e.KMin || e.KMax > units.GiB || !(e.PMax >= 0 && e.PMax <= 1) {
			return operr.New("configure", "fabric", "ECN from %d to %d bytes up to %v: needs 0 <= KMin <= KMax <= 1 GiB and a probability", int64(e.KMin), int64(e.KMax), e.PMax)
		}
	}
	if !(c.Forced >= 0 && c.Forced <= 1) {
		return operr.New("configure", "fabric", "a forced loss of %v: must be a probability", c.Forced)
	}
	if err := c.Trim.validate(c); err != nil {
		return err
	}
	if err := c.Queue.Validate(); err != nil {
		return err
	}
	return c.Buffer.validate()
}

func (b *Buffer) validate() error {
	if b.PFC && b.Size == 0 {
		return operr.New("configure", "fabric", "PFC with an endless buffer never pauses: set a buffer size")
	}
	if b.Size < 0 || b.Size > largestBuffer || b.QueueLimit < 0 || b.QueueLimit > units.GiB || b.Resume < 0 || b.Resume > largestBuffer || b.Reserve > largestBuffer || b.headroomLess < 0 {
		return operr.New("configure", "fabric", "buffer of %d bytes, queue limit %d, resume %d, reserve %d: must be between 0 and %v, the limit at most 1 GiB", int64(b.Size), int64(b.QueueLimit), int64(b.Resume), int64(b.Reserve), largestBuffer)
	}
	if b.Shift < 1 || b.Shift > 20 || b.Alpha < 1 || b.Alpha > 8000 {
		return operr.New("configure", "fabric", "buffer shift %d, alpha %d/8: must be between 1 and 20, and 1 and 8000", b.Shift, b.Alpha)
	}
	if b.Lossless < 1 || b.Lossless >= Classes {
		return operr.New("configure", "fabric", "%d lossless classes: must be between 1 and %d", b.Lossless, Classes-1)
	}
	return nil
}

// shiftAt is the shift of an ingress whose link is faster than those of hosts.
func (b *Buffer) shiftAt(rate, hostRate units.Rate) int {
	return max(0, b.Shift-max(0, bits.Len64(uint64(rate/hostRate))-1))
}
