// SPDX-License-Identifier: Apache-2.0

package mlx5

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// device writes completions as an adapter does, and remembers those that are not read.
type device struct {
	q        *CompletionQueue
	produced uint32
	unread   []uint32 // the tags of completions, in order
}

func newDevice(shift uint32) *device {
	mem := make([]byte, CompletionSize<<shift+8)
	page := NewPage(make([]byte, pageSize))
	return &device{q: NewCompletionQueue(mem[:CompletionSize<<shift], shift, NewRecord(mem[CompletionSize<<shift:]), page)}
}

// produce writes a completion of a user; the tag is where immediate data would be.
func (d *device) produce(user, tag uint32, opcode uint8) {
	e := d.q.entry(d.produced)
	clear(e[:63])
	be.PutUint32(e[32:], user)
	be.PutUint32(e[36:], tag)
	be.PutUint16(e[60:], uint16(tag))
	e[63] = opcode<<4 | uint8(d.produced>>d.q.shift&1)
	d.produced++
	d.unread = append(d.unread, tag)
}

// TestCompletionsInOrder plays a device at random against the queue, many times around it, also across the
// wrap of the 32-bit indices.
// TestSourceOfDatagram: flags_rqpn of struct mlx5_cqe64 (mlx5dv.h) is at byte 24.
func TestSourceOfDatagram(t *testing.T) {
	c := make(Completion, CompletionSize)
	be.PutUint32(c[24:], 1<<28|5<<24|0x123456)
	require.EqualValues(t, 0x123456, c.SrcQP())
	require.True(t, c.WithGRH())
	require.EqualValues(t, 5, c.SL())
}

func TestCompletionsInOrder(t *testing.T) {
	const shift = 3
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		d := newDevice(shift)
		if seed%2 == 1 { // begin just before the wrap, in a round that looks like the first
			d.q.next, d.produced = 0xffffffe0, 0xffffffe0
		}
		tag := uint32(0)
		for range 2000 {
			for range r.IntN(1<<shift - len(d.unread) + 1) {
				tag++
				d.produce(7, tag, Recv)
			}
			require.Equal(t, len(d.unread) == 1<<shift, d.q.Full(), "seed %d", seed)
			for range r.IntN(len(d.unread) + 1) {
				c := d.q.Next()
				require.NotNil(t, c, "seed %d", seed)
				require.Equal(t, d.unread[0], c.Imm(), "seed %d", seed)
				d.unread = d.unread[1:]
			}
			if len(d.unread) == 0 {
				require.Nil(t, d.q.Next(), "seed %d", seed)
			}
			d.q.Publish()
			require.Equal(t, d.q.next&0xffffff, be.Uint32(d.q.record.mem[consumed:]))
			if tag%3 == 0 {
				d.q.EventFetched()
			}
			d.q.Arm(tag%2 == 1) // the index must not run into the bits of what is asked for
			word := d.q.events.Load()%4<<28 | tag%2<<24 | d.q.next&0xffffff
			require.Equal(t, word, be.Uint32(d.q.record.mem[armed:]), "seed %d", seed)
			require.Equal(t, uint64(word)<<32, be.Uint64(d.q.page.mem[cqRegister:]), "seed %d", seed)
		}
	}
}

// TestPublishSeesFullQueue: a queue that the device fills while it is read was full.
func TestPublishSeesFullQueue(t *testing.T) {
	const shift, size = 2, 4
	for start := range uint32(2 * size) {
		for ready := 1; ready <= size; ready++ {
			for taken := 1; taken <= ready; taken++ {
				for later := 0; ready+later <= size; later++ {
					d := newDevice(shift)
					for range start {
						d.produce(7, 0, Recv)
						require.NotNil(t, d.q.Next())
						require.False(t, d.q.Publish())
					}
					for range ready {
						d.produce(7, 0, Recv)
					}
					for range taken {
						require.NotNil(t, d.q.Next())
					}
					for range later {
						d.produce(7, 0, Recv)
					}
					require.Equal(t, ready+later == size, d.q.Publish(), "%d ready, %d taken, %d more", ready, taken, later)
				}
			}
		}
	}
}

// TestClean: a queue pair's completions go, those of others stay in order, and the device goes on behind them.
func TestClean(t *testing.T) {
	const shift, gone, other = 4, 1, 2
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDevice(shift)
		for range r.IntN(40) { // somewhere in the ring
			d.produce(other, 0, Recv)
			d.q.Next()
		}
		d.q.Publish()
		var keep, drop []uint32
		for tag := range uint32(r.IntN(1<<shift + 1)) {
			user := gone + uint32(r.IntN(2))
			d.produce(user, tag, Recv)
			if user == other {
				keep = append(keep, tag)
			} else {
				drop = append(drop, tag)
			}
		}
		var dropped []uint32
		full := d.q.Clean(gone, func(c Completion) { dropped = append(dropped, c.Imm()) })
		require.Equal(t, len(keep)+len(drop) == 1<<shift, full, "seed %d", seed)
		require.ElementsMatch(t, drop, dropped, "seed %d", seed)
		keep = append(keep, 99)
		if len(keep) <= 1<<shift {
			d.produce(other, 99, Recv)
		} else {
			keep = keep[:len(keep)-1]
		}
		for _, tag := range keep {
			c := d.q.Next()
			require.NotNil(t, c, "seed %d", seed)
			require.Equal(t, tag, c.Imm(), "seed %d", seed)
		}
		require.Nil(t, d.q.Next(), "seed %d", seed)
	}
}

// TestEveryCounter: a send request is found by its block for all 65536 counters, and frees what was posted before it.
func TestEveryCounter(t *testing.T) {
	const blocks = 16
	page := NewPage(make([]byte, pageSize))
	mem := make([]byte, blocks*BlockSize+8)
	q := NewSendQueue(mem[:blocks*BlockSize], 8, NewRecord(mem[blocks*BlockSize:]), page, 256)
	q.SetQPN(0xabcdef)
	r := rand.New(rand.NewPCG(1, 1))
	for id := uint64(0); q.posted < 3<<16; {
		var counters []uint16
		for {
			segments := 1 + r.IntN(12)
			if !q.HasRoom(segments) {
				break
			}
			counters = append(counters, uint16(q.posted))
			w := q.Begin()
			for range segments - 1 {
				w.Data(1, 2, 3)
			}
			w.End(id, OpWrite, Signaled, 0)
			id++
		}
		require.NotEmpty(t, counters)
		require.LessOrEqual(t, len(counters), 8)
		q.Ring()
		require.Equal(t, q.posted&0xffff, be.Uint32(q.record.mem[sendCounter:]))
		last := counters[len(counters)-1]
		reg := q.page.mem[sendRegister+q.toggle^256:]
		require.Equal(t, uint32(last)<<8|OpWrite, be.Uint32(reg))
		require.EqualValues(t, 0xabcdef, be.Uint32(reg[4:])>>8)
		// The one before the last completes: only the last one's blocks stay taken.
		if n := len(counters); n > 1 {
			require.Equal(t, id-2, first(q.Complete(counters[n-2])))
			require.Equal(t, q.posted-uint32(q.done.Load()>>32), (q.posted-uint32(last))&0xffff)
		}
		require.Equal(t, id-1, first(q.Complete(last)))
		require.True(t, q.HasRoom(4*blocks))
	}
}

// TestFenceBehindKeyChange: the request behind one that changes a key waits for that, and no other does, nor the first after a reset.
func TestFenceBehindKeyChange(t *testing.T) {
	mem := make([]byte, 8*BlockSize+8)
	q := NewSendQueue(mem[:8*BlockSize], 8, NewRecord(mem[8*BlockSize:]), NewPage(make([]byte, pageSize)), 0)
	for i, r := range []struct{ opcode, flags, want uint8 }{
		{OpWrite, Signaled, Signaled}, {OpUMR, 0, 0}, {OpWrite, Signaled, Signaled | smallFence}, {OpWrite, 0, 0}, {OpUMR, 0, 0}, {OpRead, Fence, Fence},
		{OpUMR, 0, 0},
	} {
		w := q.Begin()
		w.End(0, r.opcode, r.flags, 0)
		require.EqualValues(t, r.want, be.Uint32(mem[i*BlockSize+8:]), "request %d", i)
	}
	q.Reset()
	w := q.Begin()
	w.End(0, OpWrite, 0, 0)
	require.Zero(t, be.Uint32(mem[8:]))
}

// TestFieldsOfCompletions: a completion's fields have their bits, and none of their neighbours'.
func TestFieldsOfCompletions(t *testing.T) {
	c := Completion(bytes.Repeat([]byte{0xff}, CompletionSize))
	require.EqualValues(t, [4]uint32{0xffffff, 0xffffff, 0xffffff, 0xf}, [4]uint32{c.User(), c.QPN(), c.SrcQP(), uint32(c.SL())})
	require.True(t, c.WithGRH())
	c[24] = 2 << 4 // an IPv4 header (MLX5_CQE_ROCE_L3_HEADER_TYPE_IPV4)
	require.True(t, c.WithGRH())
	c[24] = ^uint8(3 << 4)
	require.False(t, c.WithGRH())
}

// TestRecvQueueRecord: the record counts modulo 2^16 what was posted, and 0 after a reset, as the device does.
func TestRecvQueueRecord(t *testing.T) {
	const n, stride = 4, 16
	mem := make([]byte, n*stride+8)
	q := NewRecvQueue(mem[:n*stride], stride, n, NewRecord(mem[n*stride:]))
	for i := range uint32(1<<16 + 3) {
		s := q.Begin(uint64(i))
		s.End()
		q.Publish()
		require.Equal(t, (i+1)&0xffff, be.Uint32(q.record.mem[recvCounter:]))
		require.EqualValues(t, i, q.Complete())
	}
	q.Reset()
	require.Zero(t, be.Uint32(q.record.mem[recvCounter:]))
	require.Equal(t, n, q.Room())
}

func TestSharedQueueLinks(t *testing.T) {
	const n, stride = 8, 32
	mem := make([]byte, n*stride+8)
	q := NewSharedQueue(mem[:n*stride], stride, NewRecord(mem[n*stride:]))
	r := rand.New(rand.NewPCG(2, 2))
	var posted []uint16 // as the device follows the links
	head := uint16(0)
	for id := range uint64(5000) {
		if q.Room() > 0 && r.IntN(2) == 0 {
			s := q.Begin(id)
			s.Data(1, 2, 3)
			s.End()
			posted = append(posted, head)
			assert.Equal(t, id, q.ids[head])
			head = be.Uint16(q.at(head)[2:])
			q.Publish()
			continue
		}
		if len(posted) > 0 { // completions of a shared queue come in any order
			i := r.IntN(len(posted))
			want := q.ids[posted[i]]
			require.Equal(t, want, q.Complete(posted[i]))
			posted = append(posted[:i], posted[i+1:]...)
		}
		require.Equal(t, n-1-len(posted), q.Room())
	}
	assert.Zero(t, q.Complete(n), "an index that the device made up")
}

// FuzzCompletion: whatever a device writes, reading it doesn't panic.
func FuzzCompletion(f *testing.F) {
	f.Add(make([]byte, CompletionSize), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, next uint32) {
		d := newDevice(2)
		d.q.next = next
		copy(d.q.mem, b)
		for range 8 {
			c := d.q.Next()
			if c == nil {
				break
			}
			_, _, _, _, _ = c.Opcode(), c.User(), c.QPN(), c.SendOpcode(), c.Counter()
			_, _, _, _, _ = c.Bytes(), c.Imm(), c.SrcQP(), c.WithGRH(), c.SL()
			_, _ = c.Syndrome(), c.Vendor()
		}
		d.q.Full()
		d.q.Clean(uint32(len(b)), func(Completion) {})
	})
}

func first(id uint64, _ Kind) uint64 { return id }
