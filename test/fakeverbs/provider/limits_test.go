// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestLimitsAreNotCut: the kernel has 32 bits for a limit. One that is negative or has more is refused, and not taken for what is left
// of it.
func TestLimitsAreNotCut(t *testing.T) {
	for _, dev := range []string{devA, rxeA} {
		e := newEnd(t, dev, config{Type: verbs.RC, SRQ: true})
		for _, n := range []int{1<<32 + 8, -1} {
			_, err := e.Ctx.CreateCQ(n, nil)
			require.ErrorContains(t, err, "the device allows 1 to", "%s", dev)
			_, err = e.Ctx.CreateCQVector(16, nil, n&^7)
			require.ErrorContains(t, err, "completion vector", "%s", dev)
			_, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: n, MaxSGE: 1})
			require.Error(t, err, "%s: %d receives", dev, n)
			_, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: n})
			require.Error(t, err, "%s: %d pieces", dev, n)
			require.Error(t, e.SRQ.SetLimit(n), "%s", dev)
			for name, change := range map[string]func(*verbs.QPCap){
				"sends":       func(c *verbs.QPCap) { c.MaxSendWR = n },
				"receives":    func(c *verbs.QPCap) { c.MaxRecvWR = n },
				"send pieces": func(c *verbs.QPCap) { c.MaxSendSGE = n },
				"pieces":      func(c *verbs.QPCap) { c.MaxRecvSGE = n },
				"inline data": func(c *verbs.QPCap) { c.MaxInline = n },
			} {
				attr := verbs.QPInitAttr{Type: verbs.UC, SendCQ: e.SCQ, RecvCQ: e.RCQ, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}}
				change(&attr.Cap)
				_, err := e.PD.CreateQP(attr)
				require.Error(t, err, "%s: %d %s", dev, n, name)
			}
		}
	}
}

// TestMostInlineData: as much inline data goes through as Cap promises. A request has at most 63 segments of 16 bytes.
func TestMostInlineData(t *testing.T) {
	for _, typ := range []verbs.QPType{verbs.UC, verbs.UD, verbs.RC} {
		e := newEnd(t, devA, config{Type: typ})
		q, err := e.PD.CreateQP(verbs.QPInitAttr{Type: typ, SendCQ: e.SCQ, RecvCQ: e.RCQ, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxInline: 930}})
		require.NoError(t, err)
		most := q.Cap().MaxInline
		require.GreaterOrEqual(t, most, 930)
		data := bytes.Repeat([]byte{byte(typ) + 1}, most)
		wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: data, RKey: e.MR.RKey(), RemoteAddr: e.MR.IOVA()}
		if typ == verbs.UD {
			require.NoError(t, q.Activate(1, 1, 0))
			ah, err := e.PD.CreateAH(verbs.AHAttr{DGID: e.GID, Port: 1})
			require.NoError(t, err)
			wr.Opcode, wr.UD = verbs.OpSend, verbs.UDDest{AH: ah, QPN: q.Num(), QKey: 1}
		} else {
			require.NoError(t, q.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: e.GID}, PathMTU: verbs.MTU4096, RemoteQPN: q.Num(), Access: allAccess}))
		}
		_, err = q.PostSend([]verbs.SendWR{wr})
		require.NoError(t, err)
		require.Equal(t, verbs.WCSuccess, poll(t, e.SCQ, 1)[0].Status, "%v, %d bytes", typ, most)
		if typ != verbs.UD {
			require.Equal(t, data, e.Buf[:most])
		}
	}
}

// TestLongPieces: bit 31 of a piece's length says that data is inline, so that longer pieces are refused: they would be sent as their own
// address and key.
func TestLongPieces(t *testing.T) {
	e := newEnd(t, devA, config{Type: verbs.UC, SRQ: true})
	require.NoError(t, e.QP.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: e.GID}, PathMTU: verbs.MTU4096, RemoteQPN: e.QP.Num(), Access: allAccess}))
	long := verbs.SGE{Addr: e.MR.IOVA(), Length: 1<<31 + 12, LKey: e.MR.LKey()}
	for _, sg := range [][]verbs.SGE{nil, {e.MR.SGE(0, 8), long}} {
		n, err := e.QP.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Local: long, SG: sg}})
		require.ErrorContains(t, err, "a piece has less than 2 GiB")
		require.Zero(t, n)
		n, err = e.SRQ.PostRecv([]verbs.RecvWR{{Local: long, SG: sg}})
		require.ErrorContains(t, err, "a piece has less than 2 GiB")
		require.Zero(t, n)
	}
	own := newEnd(t, devA, config{Type: verbs.UC})
	require.NoError(t, own.QP.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: own.GID}, PathMTU: verbs.MTU4096, RemoteQPN: own.QP.Num(), Access: allAccess}))
	_, err := own.QP.PostRecv([]verbs.RecvWR{{Local: long}})
	require.ErrorContains(t, err, "a piece has less than 2 GiB")
}

// TestLimitOfNewSRQ: mlx5's kernel driver doesn't look at the limit of a new queue, so that nobody may count on it.
func TestLimitOfNewSRQ(t *testing.T) {
	for _, dev := range []string{rxeA, devA} {
		e := newEnd(t, dev, config{Type: verbs.RC})
		_, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: 1, Limit: 4})
		require.ErrorContains(t, err, "call SetLimit once receives are posted", dev)
		s, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 16, MaxSGE: 1})
		require.NoError(t, err)
		require.NoError(t, s.SetLimit(4))
		a, err := s.Query()
		require.NoError(t, err)
		require.Equal(t, 4, a.Limit, dev)
	}
}

// TestLargestSRQ: a device has what it says, and a refusal names what was asked for, not what a driver has made of it.
func TestLargestSRQ(t *testing.T) {
	for _, dev := range []string{devA, rxeA} {
		e := newEnd(t, dev, config{Type: verbs.RC})
		d, err := e.Ctx.QueryDevice()
		require.NoError(t, err)
		s, err := e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: int(d.MaxSRQWR), MaxSGE: int(d.MaxSRQSGE)})
		require.NoError(t, err, dev)
		require.GreaterOrEqual(t, s.Free(), int(d.MaxSRQWR))
		_, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 20, MaxSGE: int(d.MaxSRQSGE) + 1})
		require.ErrorContains(t, err, "20 receives of 32 pieces", dev)
	}
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	e := newEnd(t, faulty, config{Type: verbs.RC})
	require.NoError(t, writeFault(f, 0, unix.ENOMEM))
	_, err = e.PD.CreateSRQ(verbs.SRQAttr{MaxWR: 20, MaxSGE: 2})
	require.ErrorContains(t, err, "20 receives of 2 pieces")
}
