// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// multicastQPN is the destination of datagrams to a group (IBTA volume 1, 10.5.2).
const multicastQPN = 0xffffff

func TestMulticast(t *testing.T) {
	const qkey = 0x22222222
	group := verbs.GIDFromAddr(netip.MustParseAddr("ff12::4711"))
	a, b := newEnd(t, devA, endConfig{Type: verbs.UD}), newEnd(t, devB, endConfig{Type: verbs.UD})
	assert.ErrorContains(t, newEnd(t, devA, endConfig{Type: verbs.RC}).QP.AttachMulticast(group, 0), "only a UD QP")
	assert.ErrorContains(t, a.QP.AttachMulticast(b.GID, 0), "no GID of a group")
	require.NoError(t, a.QP.Activate(1, qkey, 1))
	require.NoError(t, b.QP.Activate(1, qkey, 2))
	ah, err := a.PD.CreateAH(verbs.AHAttr{DGID: group, Port: 1})
	require.NoError(t, err)
	receive := []verbs.RecvWR{{WRID: 3, Local: b.MR.SGE(0, 1024)}}
	_, err = b.QP.PostRecv(receive)
	require.NoError(t, err)
	copy(a.Buf, "to all")
	wr := verbs.SendWR{Opcode: verbs.OpSend, Local: a.MR.SGE(0, 6), UD: verbs.UDDest{AH: ah, QPN: multicastQPN, QKey: qkey}}

	// The IP layer has to let the group's packets in.
	veth1, err := net.InterfaceByName("veth1")
	require.NoError(t, err)
	member, err := net.ListenMulticastUDP("udp6", veth1, &net.UDPAddr{IP: group.Addr().AsSlice(), Port: 4711})
	require.NoError(t, err)
	defer member.Close()
	require.NoError(t, b.QP.AttachMulticast(group, 0))
	t.Cleanup(func() { _ = b.QP.DetachMulticast(group, 0) })
	err = b.QP.Close()
	assert.ErrorContains(t, err, "detach it from its multicast groups first")
	send(t, a, wr)
	wc := poll(t, b.RCQ, 1)[0]
	assert.EqualValues(t, 3, wc.WRID)
	assert.Equal(t, "to all", string(b.Buf[40:46]))

	require.NoError(t, b.QP.DetachMulticast(group, 0))
	_, err = b.QP.PostRecv(receive)
	require.NoError(t, err)
	send(t, a, wr)
	quiet(t, b.RCQ, "datagram to a group that was left")
}

// TestWindowType2: bound to one RC QP, and freed by a local invalidation.
func TestWindowType2(t *testing.T) {
	a, b := pair(t, endConfig{Type: verbs.RC, Access: allAccess | verbs.AccessMWBind})
	mw, err := b.PD.AllocMW(verbs.MWType2)
	require.NoError(t, err)
	wr, err := mw.BindWR(b.MR, 0, 4096, verbs.AccessRemoteWrite)
	require.NoError(t, err)
	require.Equal(t, verbs.WCSuccess, send(t, b, wr).Status)
	fill(a.Buf[:64], 1)
	write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 64), RemoteAddr: b.MR.IOVA(), RKey: mw.RKey()}
	require.Equal(t, verbs.WCSuccess, send(t, a, write).Status)
	assert.Equal(t, a.Buf[:64], b.Buf[:64])

	require.Equal(t, verbs.WCSuccess, send(t, b, verbs.SendWR{Opcode: verbs.OpLocalInv, Imm: mw.RKey()}).Status)
	assert.Equal(t, verbs.WCRemoteAccessErr, send(t, a, write).Status)
}
