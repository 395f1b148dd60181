// SPDX-License-Identifier: Apache-2.0

// Package uapi is the raw uverbs interface of the Linux kernel: the structures, numbers and
// tables of include/uapi/rdma/, under their C names as far as Go allows, and the one ioctl that
// carries them all. It knows no policy; package verbs gives these calls their meaning.
//
// Structures are checked twice: the sizes by the compiler (asserts.go), and every size, offset
// and number by a test against testdata/layout.txt, which a C program (probe/probe.c) printed
// from the kernel's own headers.
//
// All of it goes through ioctl RDMA_VERBS_IOCTL. The older write(2) interface, which compares
// the credentials of the writer with those of the opener and fails after any change, is not used:
// what exists only there is reached through method INVOKE_WRITE.
package uapi

import _ "github.com/sdr-rdma/go-sdr/internal/platform"
