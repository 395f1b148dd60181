// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/internal/verbstest"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// update changes a key and waits until that is done.
func update(t testing.TB, e *end, u verbs.MkeyUpdate) verbs.WC {
	t.Helper()
	u.Signaled = true
	n, err := e.QP.UpdateMkeys([]verbs.MkeyUpdate{u})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return poll(t, e.SCQ, 1)[0]
}

// TestMkey writes through a key whose list has two pieces of memory and a piece of nothing: over their borders, before the key
// may be used, and beyond its end.
func TestMkey(t *testing.T) {
	a, b := pair(t, config{Type: verbs.RC})
	null, ok := b.Ctx.NullMkey()
	require.True(t, ok)
	m, err := b.PD.CreateMkey(verbs.MkeyAttr{Entries: verbs.MkeyGroup, Length: 3000, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	require.NoError(t, err)
	fill(a.Buf[:3000], 5)
	wc := update(t, b, verbs.MkeyUpdate{WRID: 7, Mkey: m, Enable: true, Entries: []verbs.MkeyEntry{
		{Addr: b.MR.IOVA() + 50_000, Length: 1000, Key: b.MR.LKey()}, {Length: 500, Key: null}, {Addr: b.MR.IOVA() + 100, Length: 1500, Key: b.MR.LKey()}, {}}})
	require.Equal(t, verbs.WC{WRID: 7, Opcode: verbs.WCDriver1, QPN: b.QP.Num()}, wc)
	write := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Local: a.MR.SGE(0, 3000), RKey: m.Key()}
	require.Equal(t, verbs.WCSuccess, send(t, a, write).Status)
	want := make([]byte, len(b.Buf))
	copy(want[50_000:], a.Buf[:1000])
	copy(want[100:], a.Buf[1500:3000])
	require.True(t, bytes.Equal(want, b.Buf), "the pieces, and nothing else")
	write.RemoteAddr, write.Local = 2950, a.MR.SGE(0, 51)
	require.Equal(t, verbs.WCRemoteAccessErr, send(t, a, write).Status, "beyond the end")
}

// TestMkeyIsOffAtFirst: until an update enables a key, nothing goes through it, as nothing does after it was closed.
func TestMkeyIsOffAtFirst(t *testing.T) {
	a, b := pair(t, config{Type: verbs.UC})
	up := newEnd(t, devB, config{Type: verbs.RC})
	verbstest.ConnectToItself(t, up, verbs.MTU4096)
	m, err := up.PD.CreateMkey(verbs.MkeyAttr{Entries: 8, EntrySize: 1 << 12, Length: 8 << 12, Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite})
	require.NoError(t, err)
	target, err := up.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: up.SCQ, RecvCQ: up.RCQ, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 8}})
	require.NoError(t, err)
	from, err := a.PD.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: a.SCQ, RecvCQ: a.RCQ, Cap: verbs.QPCap{MaxSendWR: 8}})
	require.NoError(t, err)
	to := func(gid verbs.GID, qpn uint32) verbs.ConnectConfig {
		return verbs.ConnectConfig{Access: allAccess, Path: verbs.AHAttr{DGID: gid}, PathMTU: verbs.MTU1024, RemoteQPN: qpn}
	}
	require.NoError(t, target.Connect(to(a.GID, from.Num())))
	require.NoError(t, from.Connect(to(b.GID, target.Num())))
	fill(a.Buf[:64], 6)
	lands := func() bool {
		clear(up.Buf[:64])
		_, err := from.PostSend([]verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, Local: a.MR.SGE(0, 64), RemoteAddr: 5 << 12, RKey: m.Key()}})
		require.NoError(t, err)
		poll(t, a.SCQ, 1)
		return bytes.Equal(up.Buf[:64], a.Buf[:64])
	}
	group := make([]verbs.MkeyEntry, 4)
	group[1] = verbs.MkeyEntry{Addr: up.MR.IOVA(), Key: up.MR.LKey()}
	require.False(t, lands(), "a new key")
	update(t, up, verbs.MkeyUpdate{Mkey: m, First: 4, Entries: group})
	require.False(t, lands(), "a key with entries, not enabled")
	update(t, up, verbs.MkeyUpdate{Mkey: m, First: 4, Entries: group, Enable: true})
	require.True(t, lands(), "a key enabled")
	require.NoError(t, m.Close())
	require.False(t, lands(), "a key closed")
}

func TestMkeyRefusals(t *testing.T) {
	a, b := pair(t, config{Type: verbs.RC})
	for _, attr := range []verbs.MkeyAttr{{}, {Entries: 3}, {Entries: 4, EntrySize: 3000}, {Entries: 1<<32 + 4}} {
		_, err := b.PD.CreateMkey(attr)
		require.ErrorIs(t, err, unix.EINVAL, "%+v", attr)
	}
	m, err := b.PD.CreateMkey(verbs.MkeyAttr{Entries: 64, Length: 1 << 20})
	require.NoError(t, err)
	foreign, err := a.PD.CreateMkey(verbs.MkeyAttr{Entries: 8, Length: 1 << 20})
	require.NoError(t, err)
	require.NotEqual(t, foreign.Key()&0xff, m.Key()&0xff, "a key in the place of one that was closed must not be the same")
	entries := make([]verbs.MkeyEntry, 64)
	for _, u := range []verbs.MkeyUpdate{
		{Entries: entries[:4]}, {Mkey: foreign, Entries: entries[:4]}, {Mkey: m}, {Mkey: m, Entries: entries[:3]}, {Mkey: m, First: 2, Entries: entries[:4]},
		{Mkey: m, First: 64, Entries: entries[:4]}, {Mkey: m, First: -4, Entries: entries[:4]}, {Mkey: m, Entries: entries},
		{Mkey: m, Entries: entries[:56]},
	} {
		n, err := b.QP.UpdateMkeys([]verbs.MkeyUpdate{u})
		var bad *verbs.PostError
		require.ErrorAs(t, err, &bad, "%+v", u)
		require.Zero(t, n)
	}
	small, err := b.PD.CreateQP(verbs.QPInitAttr{Type: verbs.RC, SendCQ: b.SCQ, RecvCQ: b.RCQ, Cap: verbs.QPCap{MaxSendWR: 2}})
	require.NoError(t, err)
	require.NoError(t, small.Connect(verbs.ConnectConfig{Path: verbs.AHAttr{DGID: b.GID}, PathMTU: verbs.MTU4096, RemoteQPN: small.Num(), Access: allAccess}))
	_, err = small.UpdateMkeys([]verbs.MkeyUpdate{{Mkey: m, Entries: entries[:4]}})
	require.ErrorContains(t, err, "make the QP with more MaxSendWR or MaxInline")
	require.ErrorIs(t, b.PD.Close(), verbs.ErrInUse)
	fresh := newEnd(t, devB, config{Type: verbs.RC})
	_, err = fresh.QP.UpdateMkeys(nil)
	require.ErrorContains(t, err, "the QP is in state RESET: bring it to RTS first")
	_, uc := pair(t, config{Type: verbs.UC})
	_, err = uc.QP.UpdateMkeys(nil)
	require.ErrorIs(t, err, unix.EOPNOTSUPP, "UC")
}

// TestWithoutDEVX: firmware that takes no commands has no indirect keys, and all else works.
func TestWithoutDEVX(t *testing.T) {
	e := newEnd(t, plain, config{Type: verbs.RC})
	require.False(t, e.Ctx.HasMkeys())
	_, err := e.PD.CreateMkey(verbs.MkeyAttr{Entries: 4, Length: 1})
	require.ErrorIs(t, err, unix.EOPNOTSUPP)
	d := openUC(t, plain, false)
	assert.False(t, d.Caps().RootKey)
}

// TestOpenWithoutDEVX: firmware that can't give DEVX to another program, whatever it says of it, is used without.
func TestOpenWithoutDEVX(t *testing.T) {
	f, err := os.OpenFile(os.Getenv(insideEnv)+faultSuffix, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	for _, e := range []unix.Errno{unix.EINVAL, unix.EAGAIN, unix.ENOMEM, unix.EREMOTEIO} {
		const asRXE = 1 // calls before the one that asks for DEVX
		require.NoError(t, writeFault(f, asRXE, e))
		ctx, err := verbs.Open(faulty)
		require.NoError(t, err, e)
		require.False(t, ctx.HasMkeys(), e)
		_, err = ctx.AllocPD()
		require.NoError(t, err)
		require.NoError(t, ctx.Close())
	}
}
