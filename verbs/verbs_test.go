// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

func TestGID(t *testing.T) {
	g := GIDFromAddr(netip.MustParseAddr("192.0.2.7"))
	assert.Equal(t, "::ffff:192.0.2.7", g.String())
	assert.Equal(t, netip.MustParseAddr("192.0.2.7"), g.Addr())
	assert.False(t, g.IsZero())
	assert.True(t, GID{}.IsZero())
	g = GIDFromAddr(netip.MustParseAddr("fe80::1"))
	assert.Equal(t, "fe80::1", g.Addr().String())
}

// TestHopLimit: a path without a hop limit has one that reaches beyond the first router.
func TestHopLimit(t *testing.T) {
	assert.EqualValues(t, 64, new(AHAttr).dest().HopLimit)
	assert.EqualValues(t, 1, (&AHAttr{HopLimit: 1}).dest().HopLimit)
}

func TestMTU(t *testing.T) {
	for n, m := range map[int]MTU{256: MTU256, 512: MTU512, 1024: MTU1024, 2048: MTU2048, 4096: MTU4096} {
		assert.Equal(t, n, m.Bytes())
		got, err := MTUFromBytes(n)
		require.NoError(t, err)
		assert.Equal(t, m, got)
	}
	assert.Zero(t, MTU(0).Bytes())
	assert.Zero(t, MTU(6).Bytes())
	_, err := MTUFromBytes(1500)
	assert.ErrorContains(t, err, "256, 512, 1024, 2048 or 4096")
}

func TestNames(t *testing.T) {
	assert.Equal(t, "RTS", RTS.String())
	assert.Equal(t, "QPState(9)", QPState(9).String())
	assert.Equal(t, "LOCAL_WRITE|REMOTE_WRITE", (AccessLocalWrite | AccessRemoteWrite).String())
	assert.Equal(t, "0x0", Access(0).String())
	assert.Equal(t, "STATE|0x80000000", (MaskState | 1<<31).String())
	assert.Equal(t, "RECV_RDMA_WITH_IMM", WCRecvRDMAWrite.String())
	assert.Equal(t, "Work Request Flushed Error", WCFlushErr.String())
	assert.Equal(t, "CQ error on port 1", AsyncEvent{Type: EventCQError, Port: 1}.String())
}

// TestTransitionFix: the advice for a transition that the kernel refused.
func TestTransitionFix(t *testing.T) {
	full := MaskState | MaskPKeyIndex | MaskPort | MaskAccess
	assert.Empty(t, transitionFix(UC, Reset, Init, full))
	assert.Equal(t, "the mask lacks PORT", transitionFix(UC, Reset, Init, full&^MaskPort))
	assert.Equal(t, "the mask must not have QKEY", transitionFix(UC, Reset, Init, full|MaskQKey))
	assert.Equal(t, "the mask lacks QKEY", transitionFix(UD, Reset, Init, full&^MaskAccess))
	assert.Contains(t, transitionFix(UC, Reset, RTS, MaskState), "from RESET it can't go to RTS")
	assert.Contains(t, transitionFix(UC, ErrState, RTS, MaskState), "from ERR a QP can't go to RTS")
	assert.Empty(t, transitionFix(UC, SQE, RTS, MaskState))
	assert.Empty(t, transitionFix(UC, RTS, ErrState, MaskState))
	assert.Empty(t, transitionFix(UC, Init, ErrState, MaskState))
	assert.Empty(t, transitionFix(UC, Init, Reset, MaskState))
	assert.Equal(t, "the mask lacks MIN_RNR_TIMER|MAX_DEST_RD_ATOMIC",
		transitionFix(RC, Init, RTR, MaskState|MaskAV|MaskPathMTU|MaskDestQPN|MaskRQPSN))
}

// TestRegisterFix: the advice for rights that the device hasn't, of which the kernel says EINVAL.
func TestRegisterFix(t *testing.T) {
	fix := func(d DeviceAttr, a Access) string {
		return registerFix(&d, &uapi.RegMr{AccessFlags: uint32(a | AccessLocalWrite)}, unix.EINVAL)
	}
	assert.Contains(t, fix(DeviceAttr{}, AccessOnDemand), "no on-demand paging")
	assert.Empty(t, fix(DeviceAttr{OnDemand: OnDemandCaps{Supported: true}}, AccessOnDemand))
	assert.Contains(t, fix(DeviceAttr{Caps: CapFlushGlobal}, AccessFlushPersistent), "no such flush")
	assert.Empty(t, fix(DeviceAttr{Caps: CapFlushGlobal}, AccessFlushGlobal))
}

func TestErrorText(t *testing.T) {
	err := wrap("create QP", "rxe0", errRemoved{})
	assert.EqualError(t, err, "create QP rxe0: the device was removed (close it and open it again when it is back)")
	assert.True(t, errors.Is(err, ErrRemoved) && errors.Is(err, unix.EIO))
	assert.NoError(t, wrap("create QP", "rxe0", nil))

	ctx := &Context{info: DeviceInfo{Name: "rxe0"}, attr: DeviceAttr{MaxCQE: 64}}
	err = (&CQ{object: object{ctx: ctx}, handle: 3}).resizeError(100, unix.EINVAL)
	assert.EqualError(t, err, "resize CQ 3 of rxe0, 100 entries: invalid argument (the device allows 1 to 64 entries, "+
		"and no fewer than completions wait: poll first)", "the kind once")

	err = inUse("deallocate PD", "rxe0", map[string]int{"QP": 2, "MR": 1})
	assert.EqualError(t, err, "deallocate PD rxe0: still in use (close 2 QPs, 1 MR first)")
	assert.True(t, errors.Is(err, ErrInUse) && errors.Is(err, unix.EBUSY))
}

// TestLittleEndian: the machine is little-endian, as fromNetwork assumes.
func TestLittleEndian(t *testing.T) {
	assert.EqualValues(t, 0x01020304, binary.NativeEndian.Uint32([]byte{4, 3, 2, 1}))
	assert.EqualValues(t, 0x04030201, fromNetwork(0x01020304))
}

func TestBuffers(t *testing.T) {
	b, err := AllocBuffer(10000)
	require.NoError(t, err)
	b[9999] = 1
	require.NoError(t, FreeBuffer(b))
	require.NoError(t, FreeBuffer(nil))
	_, err = AllocBuffer(0)
	assert.ErrorContains(t, err, "allocate buffer of 0 bytes")
}

func TestKernelRelease(t *testing.T) {
	for release, want := range map[string]bool{
		"5.15.0-119-generic": false, "6.0.0": true, "6.1.0-50-amd64": true, "6.12.95+deb12-amd64": true, "7.0-rc1": true, "": false, "x": false,
	} {
		assert.Equal(t, want, atLeast(release, 6, 0), release)
	}
}
