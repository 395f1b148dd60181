// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestPassengers: a datagram that goes along with writes arrives, and so do they, whichever is longer, with and without
// the kernel's segmentation, from a socket that isn't the datagrams' own.
func TestPassengers(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, whole := range []bool{false, true} {
			a, b := newPair(t, v6, func(a, b *sideConfig) { a.DisableGSO, b.DisableGRO = whole, whole })
			from, to := a.newUD(), b.newUD()
			h, err := a.d.OpenAddress(to.Info())
			require.NoError(t, err)
			rkey, va := b.expose(0, 0, testMax)
			packets := 0
			for _, writes := range []int{1, 3, mostCarriers} {
				for _, length := range []int{4096, 64, 0} {
					for _, said := range []int{20, 300, 4096} {
						what := fmt.Sprintf("%d writes of %d bytes, a datagram of %d", writes, length, said)
						fill(a.mem[:writes*length], byte(said+writes))
						clear(b.mem[:writes*length])
						data := make([]byte, said)
						fill(data, 3)
						var w []backend.Write
						for i := range writes {
							w = append(w, backend.Write{
								VA: va + uint64(i*length), RKey: rkey, LKey: a.mr.LKey(), Offset: units.Bytes(i * length), Length: uint32(length), Imm: uint32(i),
							})
						}
						n, carried, err := a.qp.(backend.Carrier).PostWritesWith(a.d.Now(), w, from, backend.Datagram{To: h, Data: data})
						packets += writes
						if whole { // it can't send trains
							require.False(t, carried, what)
						} else {
							require.True(t, carried, what)
							packets++
						}
						require.NoError(t, err)
						require.Equal(t, writes, n)
						b.pollFor(what, writes, data, carried)
						sameBytes(t, a.mem[:writes*length], b.mem[:writes*length])
					}
				}
			}
			require.EqualValues(t, packets, a.d.Stats().PacketsSent)
			require.Zero(t, b.d.Stats().Drops)
		}
	})
}

// TestPassengersLeftBehind: writes go without a datagram that can't go along.
func TestPassengersLeftBehind(t *testing.T) {
	a, b := newPair(t, false)
	other := newSide(t, sideConfig{Config: Config{Addr: b.d.addr, Port: AnyPort, Logger: b.d.cfg.Logger}})
	handle := func(e *side) backend.AddressHandle {
		h, err := a.d.OpenAddress(e.newUD().Info())
		require.NoError(t, err)
		return h
	}
	here, elsewhere := handle(b), handle(other)
	from, gone := a.newUD(), a.newUD()
	require.NoError(t, gone.Close())
	narrow, err := a.d.NewQP(backend.QPConfig{Type: backend.UD, SendCQ: a.cq, RecvCQ: a.cq, MTU: 1024})
	require.NoError(t, err)
	rkey, va := b.expose(0, 0, testMax)
	for what, x := range map[string]struct {
		writes int
		ud     backend.QP
		to     backend.AddressHandle
		length int
		goes   bool
	}{
		"nothing is wrong":               {2, from, here, 1025, true},
		"to another port":                {2, from, elsewhere, 10, false},
		"from a queue pair that is gone": {2, gone, here, 10, false},
		"longer than its queue pair's":   {2, narrow, here, 1025, false},
		"with many writes":               {mostCarriers + 1, from, here, 10, false},
		"from one for writes":            {2, a.qp, here, 10, false},
		"to nowhere":                     {2, from, 99, 10, false},
	} {
		w := a.message(rkey, va, units.Bytes(x.writes)*64, 64)
		psn := a.qp.(*queuePair).nextPSN
		n, carried, err := a.qp.(backend.Carrier).PostWritesWith(a.d.Now(), w, x.ud, backend.Datagram{To: x.to, Data: make([]byte, x.length)})
		require.NoError(t, err, what)
		require.Equal(t, x.goes, carried, what)
		require.Equal(t, x.writes, n, what)
		require.Equal(t, psn.Add(x.writes), a.qp.(*queuePair).nextPSN, what)
		b.pollFor(what, x.writes, make([]byte, x.length), x.goes)
	}
	require.Empty(t, drops(b.d))
}

// TestPassengersWithoutTrains: where the path can't segment, writes and datagram go one by one, all at once, and the device
// notices.
func TestPassengersWithoutTrains(t *testing.T) {
	a, b := newPair(t, false)
	require.NoError(t, unix.SetsockoptInt(a.d.senders[0].fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	h, err := a.d.OpenAddress(b.newUD().Info())
	require.NoError(t, err)
	rkey, va := b.expose(0, 0, testMax)
	data := []byte("along")
	n, carried, err := a.qp.(backend.Carrier).PostWritesWith(a.d.Now(), a.message(rkey, va, 128, 64), a.newUD(), backend.Datagram{To: h, Data: data})
	require.NoError(t, err)
	require.True(t, carried)
	require.Equal(t, 2, n)
	b.pollFor("one by one", 2, data, true)
	require.False(t, a.d.WireStats().SegmentationOffload)
}

// pollFor polls until so many writes have come and, if it is expected, one datagram.
func (e *side) pollFor(what string, writes int, datagram []byte, expected bool) {
	e.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); writes > 0 || expected; {
		require.True(e.t, time.Now().Before(deadline), "%s: %d writes and the datagram (%v) are missing", what, writes, expected)
		k, err := e.cq.Poll(e.d.Now(), e.batch[:])
		require.NoError(e.t, err)
		for i := range e.batch[:k] {
			if c := &e.batch[i]; c.Kind == backend.KindWrite {
				writes--
			} else {
				require.Equal(e.t, backend.KindDatagram, c.Kind)
				require.True(e.t, expected, what)
				sameBytes(e.t, datagram, e.cq.Datagram(c))
				expected = false
			}
		}
	}
	require.Zero(e.t, writes, what)
}
