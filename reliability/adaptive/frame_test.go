// SPDX-License-Identifier: Apache-2.0

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

func testEnv() *scheme.Env {
	return &scheme.Env{
		Channels: 4, RTT: 25 * units.Millisecond, MinRTT: 25 * units.Millisecond, Rate: 400 * units.Gbit,
		AckInterval: 781 * units.Microsecond, MaxFrame: 1024, DataLimit: 1 << 20, ParityLimit: 1 << 12,
	}
}

func testTransfer(n int) scheme.Transfer {
	return scheme.Transfer{Length: units.Bytes(n) * 64 * units.KiB, UnitBytes: 64 * units.KiB, Units: n}
}

// testReceiver is a receiver of a transfer of n units.
func testReceiver(t testing.TB, n int) *receiver {
	a, err := New(Config{})
	require.NoError(t, err)
	s, err := a.NewSender(testTransfer(n), testEnv())
	require.NoError(t, err)
	info := testTransfer(n)
	info.Params = s.Params()
	r, err := a.NewReceiver(info, testEnv())
	require.NoError(t, err)
	return r.(*receiver)
}

// What a receiver writes, a sender reads alike, also when there is hardly room.
func TestStateRoundTrip(t *testing.T) {
	for _, room := range []int{minFrame, 160, 1024} {
		r := testReceiver(t, 1000)
		r.env.MaxFrame = room
		r.frontier = 1
		*r.totals = totals{100_000, 1000, 800, 300}
		for c := range r.marks {
			r.marks[c] = scheme.Mark{Unit: scheme.Parity | scheme.Unit(c+2), Valid: true}
		}
		for g := range r.groups {
			if g%2 == 0 {
				r.groups[g].state = complete
			}
			r.groups[g].present = uint8(g)
		}
		incomplete, marked, learnt := map[int]bool{}, map[int]bool{}, false
		for range 8 {
			out := scheme.Output{Frame: make([]byte, 0, room)}
			r.report(0, &board{has: make([]bool, 1000)}, &out, room)
			require.LessOrEqual(t, len(out.Frame), room)
			var s state
			require.NoError(t, s.parse(out.Frame, limits{1000, len(r.groups), 4}))
			require.Equal(t, r.ack, s.rest)
			for _, m := range s.marks {
				require.Equal(t, mark{m.channel, markParity, m.channel + 2}, m)
				marked[m.channel] = true
			}
			for _, g := range s.groups {
				require.Equal(t, groupReport{g.group, g.group, r.groupMap.rows}, g)
				incomplete[g.group] = true
			}
			learnt = learnt || s.totals == *r.totals
		}
		require.Len(t, incomplete, len(r.groups)/2, "room %d", room)
		require.Len(t, marked, 4, "room %d", room)
		require.True(t, learnt, "room %d", room)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte{frameState, 1, 0, 1, 0, 2, 0, 1, 0, 3, 4, 2, 9})
	f.Add([]byte{frameState, 2, 1, 100, 3, 2, 1, 0, 0, 0, 0})
	l := limits{units: 1000, groups: 7, channels: 4}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s state
		if s.parse(b, l) != nil {
			return
		}
		last := -1
		for _, g := range s.groups {
			if g.group <= last || g.group >= l.groups {
				t.Fatalf("group %d after %d of %d", g.group, last, l.groups)
			}
			last = g.group
		}
		if s.from > l.groups || s.to > l.groups || len(s.marks) > l.channels {
			t.Fatalf("out of range: %+v", s)
		}
	})
}

func FuzzParams(f *testing.F) {
	a, _ := New(Config{})
	for _, n := range []int{1, 1000, 100_000} {
		s, _ := a.NewSender(testTransfer(n), testEnv())
		f.Add(s.Params(), n)
	}
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		n = 1 + n&(1<<20-1)
		p, err := parseParams(b, n)
		if err != nil {
			return
		}
		if p.groups > mostGroups(n) || p.groups > 0 && (p.k() < 1 || p.k()+p.rows > maxGroup) {
			t.Fatalf("bad plan %+v", p)
		}
	})
}

// FuzzEntries gives a receiver any groups and rows: it refuses or stays within its bounds.
func FuzzEntries(f *testing.F) {
	f.Add(groupEntry([]uint32{5, 8}))
	f.Add(appendRows(nil, &batch{group: 0, row: 2, rows: 3, base: 10, stride: 1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := testReceiver(t, 500)
		for range 3 {
			_ = r.OnReliable(1, b)
		}
		if len(r.groups) != r.groupMap.count() || len(r.groupMap.late) > maxLate {
			t.Fatalf("%d groups, %d late", len(r.groups), len(r.groupMap.late))
		}
		for g := range r.groups {
			if r.groupMap.size(g)+int(r.groups[g].rows) > maxGroup {
				t.Fatalf("group %d has %d units and %d rows", g, r.groupMap.size(g), r.groups[g].rows)
			}
		}
		for i := range r.parityMap.parity {
			g, row, _ := r.parityMap.find(i)
			if r.parityOf(g, row) != i {
				t.Fatalf("parity %d is row %d of group %d, which is parity %d", i, row, g, r.parityOf(g, row))
			}
		}
	})
}

func TestParamsFit(t *testing.T) {
	p := params{plan{units: maxUnits, tail: maxUnits - 1, groups: 1 << 20, rows: 200, wantTail: maxUnits}, []byte{1, 1}}
	require.LessOrEqual(t, len(p.append(nil)), 64)
}

// Short transfers between long ones, such as headers, take no room from the parity of the long ones.
func TestRoomIsKeptForLongTransfers(t *testing.T) {
	const long = 10_000
	a, err := New(Config{})
	require.NoError(t, err)
	receive := func(n int) (parity int) {
		info := testTransfer(n)
		s, err := a.NewSender(info, testEnv())
		require.NoError(t, err)
		info.Params = s.Params()
		_, err = a.NewReceiver(info, testEnv())
		require.NoError(t, err)
		return s.(*sender).groupMap.parity()
	}
	most := receive(long)
	for range manyShorter {
		require.GreaterOrEqual(t, a.ParityUnits(long), most)
		receive(1)
	}
	receive(1)
	require.Less(t, a.ParityUnits(long), most/2, "as long as there are long ones")
	receive(long)
	require.GreaterOrEqual(t, a.ParityUnits(long), most)
}

func TestBadParams(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, {1, 0, 1, 1, 1, 0}, {2}, {2, 0, 9, 3, 10, 0}, {2, 0, 1, 0, 10, 0}, {2, 5, 0, 0, 10, 0}, {2, 0, 1, 1, 10, 3, 1}} {
		_, err := parseParams(b, 10)
		require.Error(t, err, "%v", b)
	}
}

// What a sender says of groups and rows its receiver knows afterwards, in however many frames it goes; while
// the connection accepts none, nothing is lost.
func TestEntriesRoundTrip(t *testing.T) {
	a, err := New(Config{})
	require.NoError(t, err)
	env := testEnv()
	made, err := a.NewSender(testTransfer(1000), env)
	require.NoError(t, err)
	s, r := made.(*sender), testReceiver(t, 1000)
	require.Positive(t, s.groupMap.count())
	late := []uint32{3, 7, 200}
	s.groupMap.late = append(s.groupMap.late, late)
	s.groups = append(s.groups, txGroup{})
	s.entries = append(s.entries, groupEntry(late))
	s.addRows(s.groupMap.count()-1, 3)
	for g := range s.groupMap.groups {
		s.addRows(g, 1+g%4)
	}
	env.MaxFrame = minFrame
	busy, frames := 0, 0
	for len(s.entries) > 0 {
		out := scheme.Output{ReliableBusy: frames > busy}
		before := len(s.entries)
		if s.sendEntries(&out); out.ReliableBusy {
			require.Empty(t, out.Reliable)
			require.Len(t, s.entries, before)
			busy++
			continue
		}
		frames++
		require.LessOrEqual(t, len(out.Reliable), minFrame)
		require.NoError(t, r.OnReliable(1, out.Reliable))
	}
	require.Greater(t, frames, 0)
	require.Equal(t, s.groupMap.late, r.groupMap.late)
	require.Equal(t, s.parityMap, r.parityMap)
	for g := range s.groups {
		require.Equal(t, s.groups[g].rows, r.groups[g].rows)
	}
}
