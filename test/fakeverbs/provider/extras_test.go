// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/verbstest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestDmabuf writes into the memory of a file, which stands for that of a GPU, and reads it back.
func TestDmabuf(t *testing.T) {
	a, b := pair(t, config{Type: verbs.RC})
	fd, err := unix.MemfdCreate("gpu", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Ftruncate(fd, 1<<16))
	mr, err := b.PD.RegisterDmabufMR(fd, 8192, 4096, 0x7000, allAccess)
	require.NoError(t, err)
	require.Nil(t, mr.Bytes())
	fill(a.Buf[:4096], 9)
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 4096), RemoteAddr: mr.IOVA(), RKey: mr.RKey()}
	require.Equal(t, verbs.WCSuccess, send(t, a, wr).Status)
	got := make([]byte, 4096)
	_, err = unix.Pread(fd, got, 8192)
	require.NoError(t, err)
	require.Equal(t, a.Buf[:4096], got)
	receive(t, a, verbs.RecvWR{Local: a.MR.SGE(8192, 100)})
	require.Equal(t, verbs.WCSuccess, send(t, b, verbs.SendWR{Opcode: verbs.OpSend, Local: mr.SGE(1000, 100)}).Status)
	poll(t, a.RCQ, 1)
	require.Equal(t, got[1000:1100], a.Buf[8192:8292])
	require.Panics(t, func() { mr.SGE(4000, 97) })
	wr.Local = a.MR.SGE(0, 4097)
	require.Equal(t, verbs.WCRemoteAccessErr, send(t, a, wr).Status, "beyond the region")
	for _, bad := range []struct {
		fd                   int
		offset, length, iova uint64
	}{{fd, 8192, 0, 0}, {fd, 8192, 4096, 1}, {fd, 61440, 8192, 0}, {-1, 0, 4096, 0}} {
		_, err := b.PD.RegisterDmabufMR(bad.fd, bad.offset, bad.length, bad.iova, allAccess)
		require.Error(t, err, "%+v", bad)
	}
}

func TestRelaxedOrdering(t *testing.T) {
	a, b := pair(t, config{Type: verbs.RC})
	mr, err := b.PD.RegisterMR(b.Buf[:4096], allAccess|verbs.AccessRelaxedOrdering)
	require.NoError(t, err)
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 4096), RemoteAddr: mr.IOVA(), RKey: mr.RKey()}
	require.Equal(t, verbs.WCSuccess, send(t, a, wr).Status)
}

// TestOnDemandSharedReceives: receives of an SRQ whose memory is paged out when they are needed are neither lost nor completed twice, and the
// queue has all its room afterwards, also when it is full meanwhile and when the queue pair is closed before the fault is seen.
func TestOnDemandSharedReceives(t *testing.T) {
	a, b := pair(t, config{Type: verbs.RC, SRQ: true})
	room := b.SRQ.Free()
	wrs := make([]verbs.RecvWR, room)
	for i := range wrs { // every third receive finds its memory absent
		flags := allAccess
		if i%3 == 0 {
			flags |= verbs.AccessOnDemand
		}
		mr, err := b.PD.RegisterMR(b.Buf[4096*i:][:4096], flags)
		require.NoError(t, err)
		wrs[i] = verbs.RecvWR{WRID: uint64(i), SG: []verbs.SGE{mr.SGE(0, 10), mr.SGE(2000, 100)}}
	}
	receive(t, b, wrs...)
	_, err := b.SRQ.PostRecv(wrs[:1])
	require.ErrorIs(t, err, verbs.ErrQueueFull)
	seen := map[uint64]bool{}
	message := func() {
		n, err := a.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 110), Flags: verbs.SendSignaled}})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	for i := range room {
		fill(a.Buf[:110], uint64(i))
		message()
		wc := poll(t, b.RCQ, 1)[0]
		require.Equal(t, [2]any{verbs.WCSuccess, false}, [2]any{wc.Status, seen[wc.WRID]}, "message %d took receive %d", i, wc.WRID)
		seen[wc.WRID] = true
		place := b.Buf[4096*wc.WRID:]
		require.Equal(t, a.Buf[:110], slices.Concat(place[:10], place[2000:2100]))
		poll(t, a.SCQ, 1)
	}
	require.Equal(t, room, b.SRQ.Free())

	mr, err := b.PD.RegisterMR(b.Buf[:4096], allAccess|verbs.AccessOnDemand)
	require.NoError(t, err)
	receive(t, b, verbs.RecvWR{Local: mr.SGE(0, 110)})
	require.NoError(t, b.RCQ.RequestNotify(false))
	message()
	_, err = b.Ch.Wait(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.QP.Close())
	require.Equal(t, room-1, b.SRQ.Free(), "the receive is posted again")
}

// TestModeration: an event comes with the fourth completion, or 4 ms after the first.
func TestModeration(t *testing.T) {
	a, b := pair(t, config{Type: verbs.UC})
	const period = 4 * time.Millisecond
	require.NoError(t, b.RCQ.Moderate(4, uint16(period/time.Microsecond)))
	announced := func(wait time.Duration) bool {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		cq, err := b.Ch.Wait(ctx)
		return err == nil && cq == b.RCQ
	}
	arrive := func(n int) {
		for range n {
			receive(t, b, verbs.RecvWR{})
			send(t, a, writeImm(a, b, 0, 64, 1))
		}
	}
	require.NoError(t, b.RCQ.RequestNotify(false))
	arrive(4)
	require.True(t, announced(waitLimit))
	poll(t, b.RCQ, 4)
	require.NoError(t, b.RCQ.RequestNotify(false))
	start := time.Now()
	arrive(1)
	require.True(t, announced(waitLimit))
	require.GreaterOrEqual(t, time.Since(start), period)
	poll(t, b.RCQ, 1)
}

// TestTimestamps: completions come with the device's clock, which on the fake is ours.
func TestTimestamps(t *testing.T) {
	a, b := pair(t, config{Type: verbs.UC})
	attr, err := b.Ctx.QueryDevice()
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000, attr.HCACoreClock)
	times, wcs := make([]uint64, 2), make([]verbs.WC, 4)
	receive(t, b, verbs.RecvWR{}, verbs.RecvWR{})
	before := uint64(time.Now().UnixNano())
	send(t, a, writeImm(a, b, 0, 64, 1))
	between := uint64(time.Now().UnixNano())
	send(t, a, writeImm(a, b, 0, 64, 2))
	for i := range times { // no more than there is room for in both
		n, err := b.RCQ.PollTimestamps(wcs, times[i:i+1])
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.Less(t, before, times[0])
	require.Less(t, times[0], between)
	require.Less(t, between, times[1])
}

// TestAddressOfAnotherDevice: an address handle is its device's. That of another one is refused, whatever its driver.
func TestAddressOfAnotherDevice(t *testing.T) {
	for _, devs := range [][2]string{{devA, devB}, {devA, devA}, {devA, rxeA}, {rxeA, devA}, {rxeA, rxeB}} {
		e, other := newEnd(t, devs[0], config{Type: verbs.UD}), newEnd(t, devs[1], config{Type: verbs.UD})
		require.NoError(t, e.QP.Activate(1, 7, 0))
		foreign, err := other.PD.CreateAH(verbs.AHAttr{DGID: e.GID, Port: 1})
		require.NoError(t, err)
		own, err := e.PD.CreateAH(verbs.AHAttr{DGID: e.GID, Port: 1})
		require.NoError(t, err)
		wrs := make([]verbs.SendWR, 2)
		for i, ah := range []*verbs.AH{own, foreign} {
			wrs[i] = verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, Local: e.MR.SGE(0, 64), UD: verbs.UDDest{AH: ah, QPN: e.QP.Num(), QKey: 7}}
		}
		n, err := e.QP.PostSend(wrs)
		require.ErrorContains(t, err, "work request 1 of the batch: the address handle belongs to another open device", "%v", devs)
		require.Equal(t, 1, n)
		poll(t, e.SCQ, 1)
	}
}

// TestLongestMessage: a message of rxe's has at most 2^31 bytes. A longer one isn't cut to what 32 bits hold of its length.
func TestLongestMessage(t *testing.T) {
	const most = 1 << 31
	a, b := verbstest.Pair(t, rxeA, rxeB, config{Type: verbs.RC})
	piece := func(n uint32) verbs.SGE { return verbs.SGE{Addr: a.MR.IOVA(), Length: n, LKey: a.MR.LKey()} }
	for name, wr := range map[string]verbs.SendWR{
		"one piece":    {Opcode: verbs.OpRDMAWrite, Local: piece(most + 1)},
		"two pieces":   {Opcode: verbs.OpRDMAWrite, SG: []verbs.SGE{piece(most), piece(most)}},
		"three pieces": {Opcode: verbs.OpSend, SG: []verbs.SGE{piece(most), piece(most), piece(64)}},
	} {
		wr.RemoteAddr, wr.RKey = b.MR.IOVA(), b.MR.RKey()
		n, err := a.QP.PostSend([]verbs.SendWR{wr})
		require.ErrorContains(t, err, "at most 2 GiB", name)
		require.Zero(t, n)
	}
}

// TestCloseWhileMaking closes a device while others make objects on it and use them: each call works, or says that it is closed.
func TestCloseWhileMaking(t *testing.T) {
	for round := range 40 {
		ctx, err := verbs.Open([]string{devA, rxeA}[round%2])
		require.NoError(t, err)
		pd, err := ctx.AllocPD()
		require.NoError(t, err)
		cq, err := ctx.CreateCQ(8, nil)
		require.NoError(t, err)
		var makers sync.WaitGroup
		for _, use := range []func() error{
			func() error {
				q, err := ctx.CreateCQ(8, nil)
				if err == nil {
					err = errors.Join(q.RequestNotify(false), q.Close())
				}
				return err
			},
			func() error {
				q, err := pd.CreateQP(verbs.QPInitAttr{Type: verbs.UD, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 2, MaxRecvWR: 2}})
				if err == nil {
					if err = q.Activate(1, 1, 1); err == nil {
						_, err = q.PostRecv(make([]verbs.RecvWR, 1))
					}
					err = errors.Join(err, q.Close())
				}
				return err
			},
		} {
			makers.Go(func() {
				for {
					if err := use(); err != nil {
						assert.ErrorIs(t, err, verbs.ErrClosed)
						return
					}
				}
			})
		}
		time.Sleep(time.Duration(round) * 100 * time.Microsecond)
		require.NoError(t, ctx.Close())
		makers.Wait()
	}
}
