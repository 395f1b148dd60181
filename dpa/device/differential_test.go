// SPDX-License-Identifier: Apache-2.0

//go:build dpa

package device

import (
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/dpa"
	"github.com/sdr-rdma/go-sdr/internal/bitmap"
	"github.com/sdr-rdma/go-sdr/units"
)

var (
	completions = flag.Int("completions", 100_000, "how many completions the handler and package dpa are compared on")
	seed        = flag.Uint64("seed", 1, "seed of these completions")
)

// TestHandlerEqualsEngine gives the same completions to the handler and to a dpa.Worker.
func TestHandlerEqualsEngine(t *testing.T) {
	program := link(t, compileHandler(t, "", ""))
	var all deviceCounters
	needed := uint64(0)
	done, s := 0, *seed
	for ; done < *completions; s++ {
		n, c, repeats, err := compare(t, program, s, min(*completions-done, max(10_000, *completions/100)))
		require.NoError(t, err, "-seed=%d -completions=%d", s, *completions)
		done += n
		all.add(c)
		needed += repeats
	}
	require.NotZero(t, needed, "repeats that were needed have come")
	t.Logf("%d completions, seeds %d to %d: %+v", done, *seed, s-1, all)
	for _, n := range all.each() {
		require.NotZero(t, *n, "every kind of completion has come: %+v", all)
	}
}

func (c *deviceCounters) each() []*uint64 {
	return []*uint64{&c.Packets, &c.Duplicates, &c.Stale, &c.Length, &c.Aside, &c.Fragments, &c.Probes, &c.Invalid, &c.Repairs, &c.Other}
}

func (c *deviceCounters) add(d deviceCounters) {
	for i, n := range d.each() {
		*c.each()[i] += *n
	}
}

const (
	mtu     = 1024
	workers = 2 // of which the second is fed
)

var (
	splits = []dpa.Split{dpa.DefaultSplit, {SlotBits: 4, OffsetBits: 20, FragmentBits: 8}, {SlotBits: 8, OffsetBits: 24}, {SlotBits: 16, OffsetBits: 8, FragmentBits: 8}, {SlotBits: 6, OffsetBits: 24, FragmentBits: 2}}
	chunks = []int{1, 2, 16, 48, 64, 100, 128, 256}
	// unitSizes are the packets that the sender repeats at once; 0 has the user immediate in the fragments.
	unitSizes = []int{0, 0, 1, 4, 48, 100}
)

// A pair is both engines, and what they have been given.
type pair struct {
	r *rand.Rand
	d *device

	split                dpa.Split
	channels, gens, ring int
	slots                *dpa.Slots
	table                []*dpa.Channel
	byCookie             *dpa.Channels
	worker               dpa.Worker
	other                uint64
	rest                 []int

	handled, batches uint32 // completions and batches handled
	emptied          uint32 // the epoch of the last batch that emptied the ring
	from             uint32 // the first completion's number
	pending          []cqe  // in the ring, not handled
	open             []*opened
	needed           uint64 // repeats, summed at each look
}

// opened is a message that is in a slot; next is the packet that the sender sends next.
type opened struct {
	*dpa.Message
	slot   int
	length units.Bytes // when it was opened
	next   int
	kept   units.Bytes // the length that makes the last short packet the message's end
}

func newPair(t *testing.T, program string, seed uint64) *pair {
	r := rand.New(rand.NewPCG(seed, 0))
	p := &pair{
		r: r, d: startDevice(t, program),
		split: splits[r.IntN(len(splits))], channels: 1 + r.IntN(4), gens: 1 + r.IntN(3), ring: 4 + r.IntN(5),
		from: []uint32{0, 1<<24 - 100, 1<<32 - 100}[r.IntN(3)], // counts wrap
	}
	p.slots = dpa.NewSlots(p.split, p.channels)
	for i := range p.channels * p.gens {
		p.table = append(p.table, &dpa.Channel{
			Slots: p.slots, Gen: uint32(i / p.channels), Index: i % p.channels,
			Home: i % p.channels % 2, // some are another worker's
		})
	}
	p.byCookie = dpa.NewChannels(p.table...)
	p.worker.ID = workers - 1
	p.rest = make([]int, 1<<p.ring)
	p.d.command(setUp, uint32(p.split.SlotBits), uint32(p.split.OffsetBits), uint32(p.split.FragmentBits),
		uint32(p.channels), uint32(p.gens), uint32(p.ring), p.from)
	return p
}

// compare runs both engines on at least n completions, and returns how many, by what became of them, and the repeats that were needed.
func compare(t *testing.T, program string, seed uint64, n int) (int, deviceCounters, uint64, error) {
	p := newPair(t, program, seed)
	err := p.run(n)
	if stopped := p.d.stop(); stopped != nil {
		err = stopped
	}
	if err != nil {
		err = fmt.Errorf("split %v, %d channels, %d generations, ring 2^%d, %d completions: %w",
			p.split, p.channels, p.gens, p.ring, p.handled, err)
	}
	return int(p.handled), countersOf(&p.worker, p.other), p.needed, err
}

func (p *pair) run(n int) error {
	for int(p.handled) < n && p.d.err == nil {
		switch k := p.r.IntN(40); {
		case len(p.open) == 0 || k == 0 && len(p.open) < 5:
			p.openOne()
		case k == 1:
			if err := p.drop(p.r.IntN(len(p.open))); err != nil {
				return err
			}
		case k == 2:
			m := p.any()
			m.Close()
			p.d.command(closeMessage, uint32(m.slot))
		case k == 3:
			p.learnLength(p.any())
		default:
			if err := p.batch(); err != nil {
				return err
			}
		}
	}
	for len(p.open) > 0 && p.d.err == nil {
		if err := p.drop(0); err != nil {
			return err
		}
	}
	var got deviceCounters
	p.d.command(counters)
	p.d.read(&got)
	if want := countersOf(&p.worker, p.other); p.d.err == nil && got != want {
		return fmt.Errorf("counters %+v, the engine has %+v", got, want)
	}
	return nil
}

func (p *pair) any() *opened { return p.open[p.r.IntN(len(p.open))] }

func (p *pair) openOne() {
	slot := p.r.IntN(2) * (p.split.Slots() - 4) // the first or the last
	slot += p.r.IntN(4) % p.split.Slots()
	for _, m := range p.open {
		if m.slot == slot {
			return
		}
	}
	packets := p.r.IntN(300)
	if p.r.IntN(8) == 0 {
		packets = p.r.IntN(3000)
	}
	length := units.Bytes(min(packets, p.split.MaxPackets()-1)*mtu + p.r.IntN(mtu))
	perChunk := chunks[p.r.IntN(len(chunks))]
	g := bitmap.NewGeometry(length, mtu, perChunk)
	m := &opened{slot: slot, length: length, Message: &dpa.Message{
		Gen: uint32(p.r.IntN(p.gens)), Label: p.r.Uint32N(1 << 17), Start: p.r.IntN(p.channels), Arrivals: dpa.NewArrivals(p.channels),
	}}
	m.Unit, m.Short = unitSizes[p.r.IntN(len(unitSizes))], m.Label%8 == 0
	m.Open(g, p.split, make([]uint64, bitmap.TrackerWords(g)))
	p.slots.Set(uint64(slot), m.Message)
	p.open = append(p.open, m)
	p.d.command(openMessage, uint32(slot), m.Gen, m.Label, uint32(m.Start), uint32(length), mtu|uint32(m.Unit)<<16, uint32(perChunk)|uint32(oneIf(m.Short))<<16)
}

// drop compares a message and takes it from its slot; completions of it may be waiting.
func (p *pair) drop(i int) error {
	m := p.open[i]
	if err := p.compareState(m); err != nil {
		return err
	}
	p.open = slices.Delete(p.open, i, i+1)
	p.slots.Set(uint64(m.slot), nil)
	p.d.command(dropMessage, uint32(m.slot))
	return nil
}

func (p *pair) learnLength(m *opened) {
	if _, known := m.Length(); known {
		return
	}
	n := units.Bytes(p.r.IntN(int(m.length) + 1))
	switch p.r.IntN(4) {
	case 0: // with what has come it may be complete
		n = min(m.length, units.Bytes(m.next)*mtu+units.Bytes(p.r.IntN(mtu)))
	case 1, 2: // a packet that was too short for its place is the last
		n = min(m.length, m.kept)
	}
	m.SetLength(n)
	p.d.command(setLength, uint32(m.slot), uint32(n))
}

func (p *pair) batch() error {
	comps := p.completions(p.r.IntN(1<<p.ring - len(p.pending) + 1))
	p.pending = append(p.pending, comps...)
	budget := 1 + p.r.IntN(len(p.pending)+1)
	if p.r.IntN(2) == 0 {
		budget = 1 << p.ring * 2 // more than there are
	}
	n := min(budget, len(p.pending))
	decoded := make([]backend.Completion, n)
	for i := range decoded {
		decoded[i] = p.pending[i].decode()
	}
	p.worker.Enter()
	p.other += uint64(p.worker.Process(1, p.byCookie, decoded, p.rest))
	p.worker.Leave()
	p.pending = p.pending[n:]
	p.handled += uint32(n)
	p.batches++

	ci := p.from + p.handled
	if len(p.pending) == 0 && n < budget {
		p.emptied = 2*p.batches - 1
	}
	want := verdict{
		Handled: ci, CQRecord: ci & 0xffffff, RQRecord: p.handled & 0xffff, Armed: ci,
		Epoch: 2 * p.batches, Emptied: p.emptied, Rescheduled: 1,
	}
	if got := p.d.batch(comps, budget); p.d.err == nil && got != want {
		return fmt.Errorf("after a batch of %d: %+v, want %+v", n, got, want)
	}
	if len(p.open) > 0 && p.r.IntN(10) == 0 {
		return p.compareState(p.any())
	}
	return nil
}

// completions are runs of packets as a sender sends them, with what may go wrong in between.
func (p *pair) completions(n int) (comps []cqe) {
	for len(comps) < n {
		if len(p.open) == 0 || p.r.IntN(10) == 0 {
			comps = append(comps, p.garbage())
			continue
		}
		m := p.any()
		for range min(n-len(comps), 1+p.r.IntN(100)) {
			comps = append(comps, p.packet(m))
		}
	}
	return comps
}

// garbage is any 64 bytes that are a completion.
func (p *pair) garbage() (e cqe) {
	for i := range e {
		e[i] = byte(p.r.Uint32())
	}
	if p.r.IntN(2) == 0 { // of a write to an existing queue pair
		e = newCQE(opcodeWriteImm, uint32(p.r.IntN(len(p.table)+1)), p.r.Uint32(), uint32(p.r.IntN(mtu+2)))
	}
	if e[63]>>4 == opcodeInvalid {
		e[63] = opcodeError << 4
	}
	return e
}

// packet is the next one of m, most likely.
func (p *pair) packet(m *opened) cqe {
	g := m.Tracker.Geometry()
	offset, gen, opcode := m.next, int(m.Gen), uint32(opcodeWriteImm)
	channel := (m.Start + offset/64) % p.channels
	var length units.Bytes
	m.next++
	if m.next >= g.Packets() {
		m.next = p.r.IntN(g.Packets() + 1)
	}
	if offset < g.Packets() {
		length = g.PacketLen(offset)
	}
	switch p.r.IntN(60) {
	case 0:
		gen = p.r.IntN(p.gens + 1) // late, or a queue pair that doesn't exist
	case 1:
		channel = p.r.IntN(p.channels)
	case 2:
		m.next = offset // once more
	case 3:
		m.next = min(offset+1+p.r.IntN(100), p.split.MaxPackets()-1) // a loss, or beyond the end
	case 4:
		m.next = max(0, offset-p.r.IntN(100))
	case 5:
		length = units.Bytes(p.r.IntN(mtu + 2))
		if p.r.IntN(3) == 0 {
			length = mtu // too long for a short last packet
		}
		m.kept = units.Bytes(offset)*mtu + length
	case 6:
		length, offset = 0, p.r.IntN(dpa.ProbeBase+dpa.NumProbes+2)
	case 7:
		length, offset = 0, p.split.Fragments()
	case 8:
		opcode = []uint32{opcodeSend, opcodeError, 0}[p.r.IntN(3)]
	}
	if p.r.IntN(100) == 0 {
		m.next = 0
	}
	user := uint32(gen*p.channels + channel)
	if p.r.IntN(500) == 0 {
		user |= p.r.Uint32() << 24 // bits that belong to no index
	}
	fragment := p.r.Uint32()
	if m.Unit > 0 && p.r.IntN(8) > 0 { // most are no repeats
		fragment = 0
	}
	e := newCQE(int(opcode), user, p.split.Imm(m.slot, offset, fragment), uint32(length))
	e[63] |= byte(p.r.IntN(2)) << 1 // solicited
	return e
}

func (p *pair) compareState(m *opened) error {
	g := bitmap.NewGeometry(m.length, mtu, m.Tracker.Geometry().PacketsPerChunk())
	first, repair := make([]uint64, bitmap.Words(g.Packets())), make([]uint64, bitmap.Words(g.Packets()))
	chunkBits := make([]uint64, bitmap.Words(g.Chunks()))
	const reportedFrags, reportedNeeded, reportedChunks = 0, 1, 2 // enum sdr_report
	reported := make([]uint64, (workers+1)*(reportedChunks+len(chunkBits)))
	marks := make([]uint64, p.channels)
	p.d.command(state, uint32(m.slot), uint32(m.length))
	for _, v := range []any{first, repair, chunkBits, reported, marks} {
		p.d.read(v)
	}
	if p.d.err != nil {
		return nil // stop says it
	}
	host := make([]uint64, reportedChunks+len(chunkBits)) // the union of what each has reported
	needed := uint64(0)
	what := fmt.Sprintf("message of %d bytes in slot %d", m.length, m.slot)
	for i, v := range reported {
		host[i%len(host)] |= v
		if i%len(host) == reportedNeeded {
			needed = max(needed, v)
		}
		if i < len(host) && v != 0 {
			return fmt.Errorf("%s: word %d of a worker that has seen nothing is %#x", what, i, v)
		}
	}
	equal := func(name string, got []uint64, want *bitmap.Map, n int) error {
		for w := range got {
			if g := got[w] & (1<<min(64, max(0, n-64*w)) - 1); g != want.Word(w) {
				return fmt.Errorf("%s: %s word %d is %#x, the engine has %#x", what, name, w, g, want.Word(w))
			}
		}
		return nil
	}
	packets := m.Tracker.Packets()
	if err := equal("first", first, &packets.First, packets.Len()); err != nil {
		return err
	}
	if err := equal("repair", repair, &packets.Repair, packets.Len()); err != nil {
		return err
	}
	// Bits beyond a length that was learnt late stay set, and mean nothing.
	if err := equal("chunk", chunkBits, m.Tracker.Chunks(), m.Tracker.Chunks().Len()); err != nil {
		return err
	}
	if err := equal("host", host[reportedChunks:], m.Tracker.Chunks(), m.Tracker.Chunks().Len()); err != nil {
		return err
	}
	if needed != m.Needed() {
		return fmt.Errorf("%s: %d repeats were needed, the engine counts %d", what, needed, m.Needed())
	}
	p.needed += needed
	return p.compareImmAndMarks(m, what, host[reportedFrags], marks)
}

func (p *pair) compareImmAndMarks(m *opened, what string, frags uint64, marks []uint64) error {
	complete := p.split.Fragments() > 0 && bits.OnesCount64(frags>>32) == p.split.Fragments()+1
	if imm, ok := m.Imm(); ok != complete || ok && imm != uint32(frags) {
		return fmt.Errorf("%s: immediate %#x, the engine has %#x, %v", what, frags, imm, ok)
	}
	for c, v := range marks {
		got := dpa.Mark{
			Label: uint32(v >> 46 & 0xffff), Offset: uint32(v >> 16 & (1<<30 - 1)), Count: uint16(v),
			Probe: v>>62&1 != 0, Valid: v>>63 != 0,
		}
		if want := m.Arrivals.Mark(c); got != want {
			return fmt.Errorf("%s: mark of channel %d is %+v, the engine has %+v", what, c, got, want)
		}
	}
	return nil
}
