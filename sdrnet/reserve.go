// SPDX-License-Identifier: Apache-2.0

package sdrnet

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// reserve takes room on the disk for the first size bytes of an empty file, which is to be path, so that a disk or a quota that hasn't as much,
// or a file system whose files are never so large, says so before anything is sent. Where nothing can be reserved the file is written without.
func reserve(f *os.File, path string, size int64) error {
	var disk unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &disk); err != nil || compresses(&disk) || size == 0 {
		return nil
	}
	full := func(err error) error {
		return operr.New("make room for", path, "%w: it has %v: choose another folder", err, units.Bytes(size))
	}
	// Some file systems (ext4) fill the disk up to find that it is too small: so they are asked first. Others (ramfs) don't say how large they are.
	if disk.Blocks > 0 && float64(disk.Bfree)*float64(cmp.Or(disk.Frsize, disk.Bsize)) < float64(size) {
		return full(unix.ENOSPC)
	}
	// The length stays 0: a limit of the process (ulimit -f) is for a write to meet, whose signal the program may expect.
	switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size); err {
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
		_ = f.Truncate(0) // of what was found before there was no more
		return full(err)
	}
	return nil // it is reserved, or can't be, or a signal came in between, which tmpfs gives up for
}

// compresses reports whether a file system may need less room than a file has bytes, and with some of them keeps what was reserved as it comes.
func compresses(disk *unix.Statfs_t) bool {
	const zfs, bcachefs = 0x2fc12fc1, 0xca451a4e // which linux/magic.h doesn't have
	switch uint32(disk.Type) {
	case unix.BTRFS_SUPER_MAGIC, zfs, bcachefs:
		return true
	}
	return false
}
