// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package usernotif

import (
	"structs"
	"unsafe"
)

// Names and layouts of linux/seccomp.h.

const (
	seccompSetModeFilter         = 1
	seccompFilterFlagNewListener = 1 << 3
	// With it only a fatal signal takes a call away that was received: else the Go runtime's signals
	// have the program make the same call again.
	seccompFilterFlagWaitKillable = 1 << 5

	seccompRetUserNotif = 0x7fc00000
	seccompRetAllow     = 0x7fff0000

	seccompUserNotifFlagContinue = 1
)

// seccompNotif is struct seccomp_notif with its struct seccomp_data.
type seccompNotif struct {
	_     structs.HostLayout
	ID    uint64
	PID   uint32
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// seccompNotifResp is struct seccomp_notif_resp.
type seccompNotifResp struct {
	_     structs.HostLayout
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

// seccompNotifAddfd is struct seccomp_notif_addfd.
type seccompNotifAddfd struct {
	_          structs.HostLayout
	ID         uint64
	Flags      uint32
	Srcfd      uint32
	Newfd      uint32
	NewfdFlags uint32
}

const (
	_ = -(unsafe.Sizeof(seccompNotif{}) ^ 80)
	_ = -(unsafe.Sizeof(seccompNotifResp{}) ^ 24)
	_ = -(unsafe.Sizeof(seccompNotifAddfd{}) ^ 24)
	_ = -(unsafe.Offsetof(seccompNotif{}.Args) ^ 32)
)

// The ioctls of a listener: _IOWR('!', 0, …), _IOWR('!', 1, …), _IOW('!', 3, …).
const (
	ioctlNotifRecv  = 3<<30 | unsafe.Sizeof(seccompNotif{})<<16 | '!'<<8
	ioctlNotifSend  = 3<<30 | unsafe.Sizeof(seccompNotifResp{})<<16 | '!'<<8 | 1
	ioctlNotifAddfd = 1<<30 | unsafe.Sizeof(seccompNotifAddfd{})<<16 | '!'<<8 | 3
)
