// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestWriteLandsWhenTheLinkSays(t *testing.T) {
	p := newPair(t, Config{Rate: units.Gbit, Link: Link{Delay: units.Millisecond}, HeaderBytes: 64})
	rkey, va := p.b.expose(t, 3)
	src := p.a.mem.Bytes()
	copy(src[100:], "hello")
	p.post(p.a, backend.Write{WRID: 1, VA: va + 8192, RKey: rkey, LKey: p.a.mem.LKey(), Offset: 100, Length: 5, Imm: 42, Signaled: true})

	left := units.Instant(8 * (64 + 5))
	require.Equal(t, left, p.net.Next(), "69 bytes at 1 Gbit/s")
	p.net.Advance(left - 1)
	p.poll(p.a)
	require.Empty(t, p.a.got, "the source is still being read")
	copy(src[100:], "HELLO") // legal until KindSent, and seen
	p.net.Advance(left)
	p.poll(p.a)
	require.Equal(t, []backend.Completion{{WRID: 1, Cookie: 7, Len: 5, Kind: backend.KindSent}}, p.a.got)
	copy(src[100:], "later")

	require.Equal(t, left.Add(units.Millisecond), p.net.Next())
	p.net.Advance(p.net.Next() - 1)
	require.Equal(t, make([]byte, 5), p.b.mem.Bytes()[8192:8197])
	p.run()
	require.Equal(t, "HELLO", string(p.b.mem.Bytes()[8192:8197]))
	require.Equal(t, []backend.Completion{{Cookie: 7, Imm: 42, Len: 5, Kind: backend.KindWrite}}, p.b.got)
	require.Equal(t, uint64(1), p.net.A().Stats().PacketsSent)
	require.Equal(t, uint64(5), p.net.B().Stats().BytesReceived)
}

func TestDatagrams(t *testing.T) {
	p := newPair(t, Config{Link: Link{Delay: 5}})
	p.send(p.a, "ping")
	p.send(p.a, "")
	p.send(p.b, "pong")
	p.run()
	require.Equal(t, []string{"ping", ""}, p.b.frames)
	require.Equal(t, []string{"pong"}, p.a.frames)
	require.Equal(t, units.Instant(5), p.net.Now())
	require.Equal(t, uint32(9), p.b.got[0].Cookie)
}

func TestControlIsNotStuckBehindData(t *testing.T) {
	p := newPair(t, Config{Rate: 8 * units.Gbit, Link: Link{}}) // a byte each nanosecond
	rkey, va := p.b.expose(t, 0)
	w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1000}
	p.post(p.a, w, w, w)
	p.send(p.a, "urgent")
	p.net.Advance(1000)
	p.net.Advance(1006)
	p.poll(p.b)
	require.Equal(t, []string{"urgent"}, p.b.frames, "it left after the first write")
	p.run()
	require.Len(t, p.b.imms(), 3)
	require.Equal(t, units.Instant(3006), p.net.Now())
}

func TestSendDepth(t *testing.T) {
	p := newPairDepth(t, Config{Rate: 8 * units.Gbit}, 2, 0)
	rkey, va := p.b.expose(t, 0)
	w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1000}
	n, err := p.a.uc.PostWrites(0, []backend.Write{w, w, w})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, units.Instant(1000), p.a.cq.Next(), "when there is room again")
	p.net.Advance(1000)
	p.poll(p.a)
	require.Equal(t, units.Never, p.a.cq.Next())
	p.post(p.a, w)
	p.run()
	require.Len(t, p.b.imms(), 3)
}

// Nothing but the exposed range of the exposed message can be written.
func TestDeadAddresses(t *testing.T) {
	p := newPair(t, Config{})
	rkey, va := p.b.expose(t, 5)
	try := func(rkey uint32, va uint64, length uint32, why backend.DropReason) {
		t.Helper()
		before := p.b.dev.Stats().Drops[why]
		p.post(p.a, backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: length})
		p.run()
		require.Equal(t, before+1, p.b.dev.Stats().Drops[why], why)
		require.Empty(t, p.b.imms())
	}
	m := uint64(testMax)
	for i := range p.a.mem.Bytes() {
		p.a.mem.Bytes()[i] = 0xff
	}
	try(rkey+1, va, 1, backend.DropKey)
	try(rkey, va+m, 1, backend.DropLate)
	try(rkey, va+testSlots*m, 1, backend.DropLate)
	try(rkey, va-testSlots*m, 1, backend.DropLate)
	try(rkey, va-testSlots*m, 0, backend.DropLate)
	try(rkey, va+m-1, 2, backend.DropBounds)
	require.Equal(t, backend.ErrBusy, p.b.mem.Close())
	p.b.table.StartRevoke(5 + testSlots) // another message: harmless
	require.False(t, p.b.table.Revoked(5))
	p.b.table.StartRevoke(5)
	require.True(t, p.b.table.Revoked(5))
	try(rkey, va, 1, backend.DropLate)
	require.Equal(t, make([]byte, testMax), p.b.mem.Bytes())
	require.NoError(t, p.b.mem.Close())
}

func TestRevocationThatTakesTime(t *testing.T) {
	p := newPair(t, Config{Link: Link{Delay: 10}, RevokeTime: 100})
	rkey, va := p.b.expose(t, 0)
	w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1, Imm: 1}
	p.b.table.StartRevoke(0)
	p.post(p.a, w)
	p.net.Advance(50)
	p.poll(p.b)
	require.Equal(t, []uint32{1}, p.b.imms(), "the fence is not down yet, so it may land")
	require.False(t, p.b.table.Revoked(0))
	require.Equal(t, backend.ErrBusy, p.b.mem.Close())
	_, _, err := p.b.table.Expose(testSlots, p.b.mem, backend.Range{Length: 1})
	require.ErrorContains(t, err, "wait until that is revoked")
	require.Equal(t, units.Instant(100), p.net.Next(), "somebody waits for the fence")
	p.net.Advance(99)
	require.False(t, p.b.table.Revoked(0))
	p.net.Advance(100)
	require.True(t, p.b.table.Revoked(0))
	p.post(p.a, w)
	p.run()
	require.Equal(t, []uint32{1}, p.b.imms())
	p.b.expose(t, testSlots)
}

func TestKeyPerMessage(t *testing.T) {
	p := newPair(t, Config{KeyPerMessage: true})
	require.False(t, p.b.dev.Caps().RootKey)
	require.False(t, p.b.dev.Caps().FullSequence)
	rkey, va := p.b.expose(t, 0)
	w := backend.Write{VA: va + 7, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1, Imm: 1}
	p.a.mem.Bytes()[0] = 'x'
	p.post(p.a, w)
	p.run()
	require.Equal(t, byte('x'), p.b.mem.Bytes()[7])
	p.b.table.StartRevoke(0)
	again, _ := p.b.expose(t, testSlots)
	require.NotEqual(t, rkey, again)
	p.post(p.a, w)
	p.run()
	require.Equal(t, uint64(1), p.b.dev.Stats().Drops[backend.DropKey])
	w.Length, w.Imm = 0, 2
	p.post(p.a, w)
	p.run()
	require.Equal(t, []uint32{1, 2}, p.b.imms(), "nothing is checked of a write of no bytes")
}

// A table that is closed gives its key back, so that any number may come after another; the next one's is a variant of it.
func TestTableGivesItsKeyBack(t *testing.T) {
	p := newPair(t, Config{})
	before := uint32(0)
	for i := range 100 {
		table, err := p.a.dev.NewTable(backend.TableConfig{Slots: testSlots, Generations: 4, MaxMessage: testMax})
		require.NoError(t, err)
		root := table.Root()
		require.NoError(t, table.Close())
		if i > 0 {
			require.NotEqual(t, before, root)
			require.Equal(t, before>>8, root>>8, "the index, table %d", i)
		}
		before = root
	}
}

// Without a full-sequence check a packet that outlives S·G messages lands.
func TestGenerationWrap(t *testing.T) {
	for _, full := range []bool{true, false} {
		p := newPair(t, Config{NoFullSequence: !full, DeadKey: backend.DeadKeyCompletes})
		rkey, va := p.b.expose(t, 0)
		w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1}
		for n := uint64(testSlots); n <= 4*testSlots; n += testSlots {
			p.b.table.StartRevoke(n - testSlots)
			p.b.expose(t, n)
			p.a.mem.Bytes()[0] = byte(n)
			p.b.mem.Bytes()[0] = 0
			p.post(p.a, w)
			p.run()
			landed := !full && n == 4*testSlots
			require.Equal(t, landed, p.b.mem.Bytes()[0] != 0, "full %v, message %d", full, n)
		}
		require.Len(t, p.b.imms(), 4, "this device completes even what it discards")
	}
}

func TestDeadKeyEatsReceive(t *testing.T) {
	p := newPairDepth(t, Config{DeadKey: backend.DeadKeyEatsReceive, NeedsReceives: true}, 64, 2)
	p.post(p.a, backend.Write{}, backend.Write{}, backend.Write{})
	for p.net.Next() != units.Never {
		p.net.Advance(p.net.Next()) // time passes, and nobody polls
	}
	require.Equal(t, uint64(1), p.b.dev.Stats().Drops[backend.DropNoReceive])
	p.poll(p.b)
	require.Equal(t, []backend.Completion{
		{Cookie: 7, Kind: backend.KindWrite, Status: backend.StatusRemoteAccess},
		{Cookie: 7, Kind: backend.KindWrite, Status: backend.StatusRemoteAccess},
	}, p.b.got)
}

func TestRecvBurst(t *testing.T) {
	p := newPair(t, Config{RecvBurst: 3000})
	rkey, va := p.b.expose(t, 0)
	w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1000}
	p.post(p.a, w, w, w, w)
	for p.net.Next() != units.Never {
		p.net.Advance(p.net.Next())
	}
	require.Equal(t, uint64(1), p.b.dev.Stats().Drops[backend.DropQueueFull])
	p.poll(p.b)
	p.post(p.a, w)
	p.run()
	require.Len(t, p.b.imms(), 4)
}

func TestOverrunOfTheCQIsAnError(t *testing.T) {
	p := newPair(t, Config{})
	small, err := p.a.dev.NewCQ(backend.CQConfig{Entries: 1})
	require.NoError(t, err)
	q, err := p.a.dev.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: small, RecvCQ: small, MTU: 1, SendDepth: 4})
	require.NoError(t, err)
	require.NoError(t, q.Connect(backend.QPInfo{Addr: p.b.uc.Info().Addr, QPN: 1, MTU: 1}))
	_, err = q.PostWrites(0, []backend.Write{{Signaled: true}, {Signaled: true}})
	require.NoError(t, err)
	p.run()
	_, err = small.Poll(0, make([]backend.Completion, 1))
	require.ErrorContains(t, err, "overrun")
}

func TestFilter(t *testing.T) {
	p := newPair(t, Config{Link: Link{Delay: 10}})
	rkey, va := p.b.expose(t, 0)
	var seen []PacketInfo
	p.net.SetFilter(func(i PacketInfo) Verdict {
		i.Data = bytes.Clone(i.Data)
		seen = append(seen, i)
		switch {
		case string(i.Data) == "drop":
			return Drop
		case i.Imm == 1:
			return Hold(50)
		case i.Imm == 2:
			return Duplicate
		}
		return Deliver
	})
	w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 2}
	for i := range uint32(3) {
		w.Imm = i
		p.post(p.a, w)
	}
	p.send(p.b, "drop")
	p.send(p.b, "keep")
	p.run()
	require.Equal(t, []uint32{0, 2, 2, 1}, p.b.imms())
	require.Equal(t, units.Instant(60), p.net.Now())
	require.Equal(t, []string{"keep"}, p.a.frames)
	require.Len(t, seen, 5)
	require.Equal(t, PacketInfo{
		Direction: AtoB, Index: 2, Kind: backend.KindWrite, SrcQPN: p.a.uc.Info().QPN, DstQPN: p.b.uc.Info().QPN,
		VA: va, RKey: rkey, Imm: 2, Length: 2, Data: []byte{0, 0},
	}, seen[slices.IndexFunc(seen, func(i PacketInfo) bool { return i.Imm == 2 })])
	require.Equal(t, uint64(1), p.b.dev.Stats().Drops[backend.DropEmulatedLoss])
	require.Equal(t, uint64(1), p.a.dev.Stats().Duplicated)
}

func TestCloseGivesUpWhatIsPosted(t *testing.T) {
	p := newPair(t, Config{Rate: 8 * units.Gbit})
	rkey, va := p.b.expose(t, 0)
	w := backend.Write{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1000, Signaled: true}
	p.post(p.a, w, w, w)
	p.net.Advance(1000)
	require.NoError(t, p.a.uc.Close())
	require.NoError(t, p.a.uc.Close())
	p.run()
	require.Empty(t, p.a.got, "no completion after Close")
	require.Len(t, p.b.imms(), 1)
	require.NoError(t, p.b.dev.Close())
	require.NoError(t, p.b.dev.Close())
	require.NoError(t, p.a.dev.Close())
	require.True(t, p.net.world.Idle(), "every packet is back in the pool")
	_, err := p.a.dev.NewCQ(backend.CQConfig{Entries: 1})
	require.Equal(t, backend.ErrClosed, err)
}

// TestMemoryGoneBeforeItIsSent: a write whose memory has been deregistered since is given up, which its completion says.
func TestMemoryGoneBeforeItIsSent(t *testing.T) {
	p := newPair(t, Config{Rate: units.Gbit})
	rkey, va := p.b.expose(t, 0)
	p.post(p.a, backend.Write{WRID: 5, VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 100})
	require.NoError(t, p.a.mem.Close())
	p.run()
	require.Equal(t, []backend.Completion{{WRID: 5, Cookie: 7, Len: 100, Kind: backend.KindSent, Status: backend.StatusError}}, p.a.got)
	require.Empty(t, p.b.got)
	require.True(t, p.net.world.Idle())
}

// TestOnlyThePeerIsHeard: a queue pair takes writes from the one that it was connected to.
func TestOnlyThePeerIsHeard(t *testing.T) {
	p := newPair(t, Config{})
	rkey, va := p.b.expose(t, 0)
	other, err := p.a.dev.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: p.a.cq, RecvCQ: p.a.cq, MTU: testMTU, SendDepth: 1})
	require.NoError(t, err)
	require.NoError(t, other.Connect(p.b.uc.Info()))
	_, err = other.PostWrites(p.net.Now(), []backend.Write{{VA: va, RKey: rkey, LKey: p.a.mem.LKey(), Length: 1}})
	require.NoError(t, err)
	p.run()
	require.Empty(t, p.b.got)
	require.Equal(t, uint64(1), p.b.dev.Stats().Drops[backend.DropSource])
}

// TestCloseForgetsWhatWaits: datagrams that wait to be polled go with their queue pair.
func TestCloseForgetsWhatWaits(t *testing.T) {
	p := newPair(t, Config{})
	p.send(p.a, "one")
	p.send(p.a, "two")
	p.net.Advance(p.net.Next())
	require.NoError(t, p.b.ud.Close())
	p.run()
	require.Empty(t, p.b.got)
	require.True(t, p.net.world.Idle())
}
