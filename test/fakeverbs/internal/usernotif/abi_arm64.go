// SPDX-License-Identifier: Apache-2.0

package usernotif

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	sysFstatat = unix.SYS_FSTATAT
)
