// SPDX-License-Identifier: Apache-2.0

package usernotif

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_X86_64
	sysFstatat = unix.SYS_NEWFSTATAT
)
