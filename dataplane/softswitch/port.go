// SPDX-License-Identifier: Apache-2.0

package softswitch

import (
	"encoding/binary"
	"fmt"

	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/switchfn"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// MaxFrame is the longest Ethernet frame, without FCS, that a Port takes: a packet of 4096 bytes of payload over IPv6,
	// and some.
	MaxFrame = 4400
	// maxFrames bounds what waits in one queue.
	maxFrames = 1 << 14
	// slack is how far a Port may lag behind its clock when it was not asked for a while, and catch up: a
	// scheduler's.
	slack = 5 * units.Millisecond
)

// Config describes a Port. The zero value is a wire without a limit.
type Config struct {
	// Rate is that of the line, for the bytes of Ethernet frames without FCS, preamble and gap; 0: no limit, no queue.
	Rate units.Rate
	// Queue is how many bytes of data may wait; a frame that finds more is trimmed or dropped. 0: 64 KiB.
	Queue units.Bytes
	// Trim says how frames are trimmed; nil: they are dropped. Threshold 0 stands for Queue. Its ThresholdRate and SafeAcks are for the
	// ports of a simulated switch alone.
	Trim *fabric.Trim
	// MarkAbove marks ECN-capable frames that leave while more bytes of data wait; 0: none.
	MarkAbove units.Bytes
	// Every trims, or without Trim drops, each n-th packet of data that can be, whatever waits; 0: none.
	Every int
}

const defaultQueue = 64 * units.KiB

// Validate says what is wrong with c, if anything.
func (c *Config) Validate() error {
	switch {
	case c.Rate < 0 || c.Queue < 0 || c.MarkAbove < 0 || c.Every < 0:
		return fmt.Errorf("rate %v, queue %v, marking above %v, each %d-th: must not be negative", c.Rate, c.Queue, c.MarkAbove, c.Every)
	case c.Trim == nil:
		return nil
	case !(c.Trim.Weight >= 0.01 && c.Trim.Weight <= 1000):
		return fmt.Errorf("weight %v of the control queue: must be between 0.01 and 1000", c.Trim.Weight)
	case c.Trim.ThresholdRate != 0 || c.Trim.SafeAcks:
		return fmt.Errorf("a threshold for ports of %v, safe acknowledgements %v: a port of real packets has neither", c.Trim.ThresholdRate, c.Trim.SafeAcks)
	case c.Trim.Carry < 0 || c.Trim.Carry > roce.MostTrimmed || c.Trim.Carry > 1 && c.Trim.Header > trim.HeaderSize:
		return fmt.Errorf("%d names in a header-only packet, of %d bytes: must be 0 to %d, and at most 1 where more than headers is left", c.Trim.Carry, int64(c.Trim.Header), roce.MostTrimmed)
	case c.Trim.Header < 0 || c.Trim.Header > MaxFrame || c.Trim.Threshold < 0 || c.Trim.ControlLimit < 0:
		return fmt.Errorf("trimming to %d bytes, from %v on, a control queue of %v: must not be negative, nor more than a frame", int64(c.Trim.Header), c.Trim.Threshold, c.Trim.ControlLimit)
	}
	return nil
}

// Counters count frames.
type Counters struct {
	// Frames came in, Bytes are theirs, and Sent went out.
	Frames    uint64 `json:"frames"`
	Bytes     uint64 `json:"bytes"`
	Sent      uint64 `json:"sent"`
	SentBytes uint64 `json:"sent_bytes"`
	// Trimmed were cut to their headers, HeaderOnly had been before, or go back. Dropped found no room, in a queue or, while a Switch
	// had no processor, in its socket (of these Bytes knows nothing); HeaderLost are those of them that were header-only. TooLong were
	// longer than MaxFrame.
	Trimmed uint64 `json:"trimmed"`
	// Joined are those header-only packets that another one, which waited, has carried on: they were not sent themselves.
	Joined     uint64 `json:"joined"`
	HeaderOnly uint64 `json:"header_only"`
	Dropped    uint64 `json:"dropped"`
	HeaderLost uint64 `json:"header_lost"`
	TooLong    uint64 `json:"too_long,omitempty"`
	// Marked left with a mark of congestion. JSON has these two where there are any: most switches neither mark nor meet such frames.
	Marked uint64 `json:"marked,omitempty"`
	// Longest is the most bytes of data that waited.
	Longest units.Bytes `json:"longest"`
}

// metaSize is what a frame carries before it: the offloads' header of its socket (virtio_net_hdr).
const metaSize = 10

// frame is a place for one frame with what precedes it.
type frame struct {
	n int
	// slot is where Port.waiting has it, if it does.
	slot uint8
	data [metaSize + MaxFrame]byte
}

func (f *frame) bytes() []byte { return f.data[metaSize : metaSize+f.n] }

// A fifo is a ring of frames.
type fifo struct {
	ring  [maxFrames]*frame
	head  int
	n     int
	bytes units.Bytes
}

func (q *fifo) push(f *frame) {
	q.ring[(q.head+q.n)%maxFrames] = f
	q.n++
	q.bytes += units.Bytes(f.n)
}

func (q *fifo) pop() *frame {
	f := q.ring[q.head]
	q.head = (q.head + 1) % maxFrames
	q.n--
	q.bytes -= units.Bytes(f.n)
	return f
}

// A Port is the sending side of a line: a queue for data, one for header-only packets, and a scheduler. It has no clock and
// does no I/O. One goroutine uses it.
type Port struct {
	cfg       Config
	threshold units.Bytes
	keep      int
	data      fifo
	control   fifo
	// idle is when what is being sent has left.
	idle units.Instant
	// turn says whose turn it is, and credit what the queues may still send in theirs, in bytes.
	turn    *fifo
	credit  [2]int
	quantum [2]int
	seen    int
	free    []*frame
	// waiting are header-only packets of the control queue that may carry others, by where they go: of two in one place the later.
	waiting [256]*frame
	Counters
}

// NewPort makes a Port.
func NewPort(c Config) (*Port, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &Port{cfg: c, threshold: c.Queue}
	if p.threshold == 0 {
		p.threshold = defaultQueue
	}
	if t := c.Trim; t != nil {
		if t.Threshold > 0 {
			p.threshold = min(p.threshold, t.Threshold)
		}
		if t.Header > trim.HeaderSize {
			p.keep = int(t.Header)
		}
		p.quantum = [2]int{MaxFrame, max(1, int(t.Weight*MaxFrame))}
	}
	p.turn = &p.data
	return p, nil
}

// frame returns a place for a frame.
func (p *Port) frame() *frame {
	if n := len(p.free); n > 0 {
		f := p.free[n-1]
		p.free = p.free[:n-1]
		return f
	}
	return new(frame)
}

func (p *Port) release(f *frame) { p.free = append(p.free, f) }

// enqueue takes f, which is the Port's from then on, at now.
func (p *Port) enqueue(now units.Instant, f *frame) {
	p.Frames++
	p.Bytes += uint64(f.n)
	if p.data.n == 0 && p.control.n == 0 {
		p.idle = max(p.idle, now) // time in which there was nothing to send is gone
	}
	switch v := p.admit(f); {
	case v == switchfn.Drop || v == switchfn.Pass && p.data.n == maxFrames:
		p.Dropped++
		p.release(f)
	case v == switchfn.Pass:
		p.data.push(f)
		p.Longest = max(p.Longest, p.data.bytes)
	default:
		p.pushControl(f, v)
	}
}

// pushControl queues a header-only packet.
func (p *Port) pushControl(f *frame, v switchfn.Verdict) {
	if v == switchfn.Trim {
		p.Trimmed++
	} else {
		p.HeaderOnly++
	}
	limit := p.cfg.Trim.ControlLimit
	if p.control.n == maxFrames || limit > 0 && p.control.bytes+units.Bytes(f.n) > limit {
		p.Dropped++
		p.HeaderLost++
		p.release(f)
		return
	}
	if p.cfg.Trim.Carry > 1 && p.join(f) {
		return
	}
	p.control.push(f)
}

// join has a header-only packet that waits carry f, if there is one for the same queue pair; else f may become one.
func (p *Port) join(f *frame) bool {
	f.slot = slotOf(f.bytes())
	c := p.waiting[f.slot]
	if c == nil {
		p.waiting[f.slot] = f
		return false
	}
	b, ok := trim.Join(c.bytes(), f.bytes(), p.cfg.Trim.Carry)
	if !ok {
		p.waiting[f.slot] = f
		return false
	}
	p.control.bytes += units.Bytes(len(b) - c.n)
	c.n = len(b)
	clear(c.data[:metaSize]) // its checksum is right, or none
	p.Joined++
	p.release(f)
	return true
}

// slotOf is a place in Port.waiting, by the queue pair and the last byte of the address that a packet goes to.
func slotOf(b []byte) uint8 {
	l, ok := trim.Parse(b)
	if !ok {
		return 0
	}
	const udp, destQP = 8, 5
	qp := b[l.UDP+udp+destQP:]
	return qp[0] ^ qp[1]*7 ^ qp[2] ^ b[l.UDP-1]*29
}

// admit decides about f, and cuts it where that is the decision.
func (p *Port) admit(f *frame) switchfn.Verdict {
	waiting := p.data.bytes
	if p.cfg.Every > 0 && p.forced(f) {
		waiting = p.threshold
	}
	if p.cfg.Trim == nil {
		if waiting >= p.threshold {
			return switchfn.Drop
		}
		return switchfn.Pass
	}
	b, v := trim.Frame(f.bytes(), p.keep, waiting, p.threshold)
	if v == switchfn.Trim {
		f.n = len(b)
		clear(f.data[:metaSize]) // its checksum is right, or none
	}
	return v
}

// forced reports whether f is the next packet of data to be trimmed without need.
func (p *Port) forced(f *frame) bool {
	l, ok := trim.Parse(f.bytes())
	if !ok || l.Tag == trim.HeaderOnly || l.Length(p.keep) == 0 {
		return false
	}
	p.seen++
	return p.seen%p.cfg.Every == 0
}

// dequeue returns the frame that leaves at now, nil if the line is busy or nothing waits. The caller gives it back with
// release.
func (p *Port) dequeue(now units.Instant) *frame {
	if p.idle > now {
		return nil // before a queue is chosen, which spends its turn
	}
	q := p.choose()
	if q == nil {
		return nil
	}
	f := q.pop()
	if p.waiting[f.slot] == f {
		p.waiting[f.slot] = nil
	}
	if p.cfg.Rate > 0 {
		p.idle = max(p.idle, now.Add(-slack)).Add(p.cfg.Rate.Time(units.Bytes(f.n)))
	}
	if q == &p.data && p.cfg.MarkAbove > 0 && p.data.bytes > p.cfg.MarkAbove && mark(f.bytes()) {
		p.Marked++
	}
	p.Sent++
	p.SentBytes += uint64(f.n)
	return f
}

// choose is the queue to send from, by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995); nil: nothing waits.
func (p *Port) choose() *fifo {
	switch {
	case p.control.n == 0 && p.data.n == 0:
		return nil
	case p.control.n == 0:
		p.credit[1] = 0 // an empty queue saves nothing
		return &p.data
	case p.data.n == 0:
		p.credit[0] = 0
		return &p.control
	}
	for {
		i := 0
		if p.turn == &p.control {
			i = 1
		}
		if size := p.turn.ring[p.turn.head].n; p.credit[i] >= size {
			p.credit[i] -= size
			return p.turn
		}
		p.turn = [2]*fifo{&p.control, &p.data}[i]
		p.credit[1-i] += p.quantum[1-i]
	}
}

// next is when a frame will leave, units.Never if nothing waits.
func (p *Port) next() units.Instant {
	if p.control.n == 0 && p.data.n == 0 {
		return units.Never
	}
	return p.idle
}

// mark sets CE (RFC 3168) in an ECN-capable IP packet, and reports whether it did.
func mark(b []byte) bool {
	const (
		ethernet = 14
		ce       = 3
	)
	if len(b) < ethernet+20 {
		return false
	}
	switch binary.BigEndian.Uint16(b[12:]) {
	case 0x0800:
		old := b[15]
		if old&ce == 0 || old&ce == ce || b[14]>>4 != 4 {
			return false
		}
		b[15] |= ce
		// RFC 1624: HC' = ~(~HC + ~m + m').
		sum := uint32(^binary.BigEndian.Uint16(b[24:])) + uint32(^uint16(old)) + uint32(b[15])
		sum = sum&0xffff + sum>>16
		sum += sum >> 16
		binary.BigEndian.PutUint16(b[24:], ^uint16(sum))
		return true
	case 0x86dd:
		if e := b[15] >> 4 & ce; e == 0 || e == ce {
			return false
		}
		b[15] |= ce << 4
		return true
	}
	return false
}
