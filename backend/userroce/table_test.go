// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestTableErrors(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	for _, x := range []struct {
		c    backend.TableConfig
		want string
	}{
		{backend.TableConfig{Slots: 0, MaxMessage: 1}, "0 slots"},
		{backend.TableConfig{Slots: 3, MaxMessage: 1}, "3 slots"},
		{backend.TableConfig{Slots: 1 << 17, MaxMessage: 1}, "131072 slots"},
		{backend.TableConfig{Slots: 4, MaxMessage: 0}, "power of two"},
		{backend.TableConfig{Slots: 4, MaxMessage: 4097}, "messages of 4097 bytes: choose a power of two"},
		{backend.TableConfig{Slots: 8, MaxMessage: 1 << 62}, "address space"},
	} {
		_, err := e.d.NewTable(x.c)
		require.ErrorContains(t, err, x.want)
	}
	_, err := e.d.NewTable(backend.TableConfig{Slots: 4, MaxMessage: 1 << 62})
	require.NoError(t, err)

	local, err := e.d.Register(make([]byte, 100), 0)
	require.NoError(t, err)
	_, _, err = e.table.Expose(0, local, backend.Range{Length: 1})
	require.ErrorContains(t, err, "AccessRemoteWrite")
	other := newSide(t, sideConfig{Config: testConfig(t, false)})
	_, _, err = e.table.Expose(0, other.mr, backend.Range{Length: 1})
	require.ErrorContains(t, err, "another device")
	for _, r := range []backend.Range{
		{Offset: -1, Length: 1}, {Offset: 0, Length: -1}, {Offset: testMemory, Length: 1},
		{Offset: testMemory + 1}, {Offset: 1, Length: testMemory}, {Offset: 1 << 62, Length: 1 << 62},
	} {
		_, _, err = e.table.Expose(0, e.mr, r)
		require.ErrorContains(t, err, "expose userroce: ")
		require.ErrorContains(t, err, "the region has")
	}
	_, _, err = e.table.Expose(0, e.mr, backend.Range{Length: testMax + 1})
	require.ErrorContains(t, err, "expose userroce: 1048577 bytes: a message has at most")
	_, err = e.d.Register(nil, 0)
	require.ErrorContains(t, err, "empty")
}

// TestSlotLife: a slot belongs to one message until its revocation is complete, and so does its region.
func TestSlotLife(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	r, err := e.d.Register(make([]byte, 4096), backend.AccessRemoteWrite)
	require.NoError(t, err)
	all := backend.Range{Length: 4096}

	require.True(t, e.table.Revoked(3), "never exposed")
	e.table.StartRevoke(3)
	_, _, err = e.table.Expose(3, r, all)
	require.NoError(t, err)
	require.False(t, e.table.Revoked(3))
	_, _, err = e.table.Expose(3+testSlots, r, all)
	require.ErrorContains(t, err, "its slot still belongs to message 3")
	require.ErrorIs(t, r.Close(), backend.ErrBusy)
	e.table.StartRevoke(3 + testSlots) // another message than the one exposed
	require.False(t, e.table.Revoked(3))

	rx := e.cq.(*cq).rx
	rx.epoch.enter() // a worker is inside Poll
	e.table.StartRevoke(3)
	e.table.StartRevoke(3)
	require.False(t, e.table.Revoked(3))
	_, _, err = e.table.Expose(3+testSlots, r, all)
	require.ErrorContains(t, err, "its slot still belongs to message 3")
	require.ErrorIs(t, r.Close(), backend.ErrBusy)
	rx.epoch.leave()
	rx.epoch.enter() // it is inside another Poll
	require.True(t, e.table.Revoked(3))
	rx.epoch.leave()

	_, _, err = e.table.Expose(3+testSlots, r, all)
	require.NoError(t, err)
	require.True(t, e.table.Revoked(3))

	// The region of a message that is revoked need not wait for somebody to ask for that.
	once, err := e.d.Register(make([]byte, 10), backend.AccessRemoteWrite)
	require.NoError(t, err)
	_, _, err = e.table.Expose(4, once, backend.Range{Length: 10})
	require.NoError(t, err)
	e.table.StartRevoke(4)
	require.NoError(t, once.Close())

	// Closing the table revokes, and the same goes for it.
	require.NoError(t, e.table.Close())
	require.NoError(t, e.table.Close())
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, _, err = e.table.Expose(4, e.mr, all)
	require.ErrorIs(t, err, backend.ErrClosed)
	require.Empty(t, e.d.tables)
}

// TestTableMemory: entries are reused, and an idle table is small.
func TestTableMemory(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	for n := range uint64(10 * testSlots) {
		e.expose(n, 0, 10)
		e.table.StartRevoke(n)
		require.True(t, e.table.Revoked(n))
	}
	tb := e.table.(*table)
	require.Len(t, tb.free, 1)
	require.Zero(t, tb.owned)

	idle := testing.AllocsPerRun(1, func() {
		_, err := e.d.NewTable(backend.TableConfig{Slots: 1024, MaxMessage: units.GiB})
		require.NoError(t, err)
	})
	require.LessOrEqual(t, idle, 6.0, "a table and its slots, no entries")
}

func TestRegionKeys(t *testing.T) {
	a, b := newPair(t, false)
	rkey, va := b.expose(0, 0, 100)
	write := func(key uint32, off units.Bytes, n uint32) error {
		_, err := a.qp.PostWrites(0, []backend.Write{{VA: va, RKey: rkey, LKey: key, Offset: off, Length: n}})
		return err
	}
	r, err := a.d.Register(make([]byte, 100), 0)
	require.NoError(t, err)
	require.EqualValues(t, 100, r.Len())
	require.NoError(t, write(r.LKey(), 0, 100))
	require.NoError(t, write(r.LKey(), 99, 1))
	require.ErrorContains(t, write(r.LKey(), 1, 100), "write of 100 bytes from offset 1 of a region with 100")
	require.ErrorContains(t, write(r.LKey(), -1, 1), "offset -1")
	require.ErrorContains(t, write(r.LKey(), 1<<62, 1), "region with 100")
	require.ErrorContains(t, write(a.mr.LKey(), 0, 4097), "write of 4097 bytes on a queue pair with MTU 4096")
	require.ErrorContains(t, write(r.LKey()^1, 0, 1), "unknown local key")
	require.ErrorContains(t, write(0xffffff00, 0, 1), "unknown local key")
	require.NoError(t, r.Close())
	require.ErrorContains(t, write(r.LKey(), 0, 1), "unknown local key")

	// The entry is used again.
	r2, err := a.d.Register(make([]byte, 100), 0)
	require.NoError(t, err)
	require.Equal(t, r.LKey()>>lkeyTagBits, r2.LKey()>>lkeyTagBits)
	require.Len(t, b.poll(2), 2)

	// What precedes a faulty write is sent.
	n, err := a.qp.PostWrites(0, []backend.Write{{VA: va, RKey: rkey}, {VA: va, RKey: rkey}, {VA: va, RKey: rkey, LKey: r2.LKey() ^ 1, Length: 1}})
	require.ErrorContains(t, err, "unknown local key")
	require.Equal(t, 2, n)
	require.Len(t, b.poll(2), 2)
}

// TestNoRegionHasKey0: nor any key without the random bits.
func TestNoRegionHasKey0(t *testing.T) {
	d := openTest(t, testConfig(t, false))
	for range 4000 {
		r, err := d.Register(make([]byte, 1), 0)
		require.NoError(t, err)
		require.NotZero(t, r.LKey()&(1<<lkeyTagBits-1))
		require.NoError(t, r.Close())
	}
}
