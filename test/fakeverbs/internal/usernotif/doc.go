// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

// Package usernotif runs a program so that some of its system calls are answered by the calling process:
// seccomp user notification (seccomp_unotify(2)). The program needs no privilege and no change; it may
// be linked statically.
//
// Trapped are openat, stat, fstat and the ioctl of RDMA; everything else goes to the kernel. A file that the
// program is given in answer to openat is a real file, so that mmap of it is shared memory.
package usernotif
