// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Removed tells whether the device is being taken away (rdma link del, ip link del, unplugged) or has
// failed for good. It doesn't come back under this Context, not even when a device of its name does:
// close it.
//
// Drivers that can do without their users (real NICs, rxe since Linux 7) are gone at once: waits end and
// calls return ErrRemoved. Of others the kernel says nothing, hides the device from sysfs, lets it work
// on, and the removal hangs until the last process has closed it. So ask now and then, once a second or
// when nothing arrives. Removed makes one system call.
func (c *Context) Removed() bool {
	if !c.removed.Load() && !c.listed() {
		c.removed.Store(true)
	}
	return c.removed.Load()
}

// listed tells whether sysfs still has the device that was opened. A new one of the same number has
// another node there.
func (c *Context) listed() bool {
	node, err := sysfsNode(c.system, c.info)
	return err == nil && node == c.node
}

// sysfsNode is the number of a device's folder in sysfs, which is never used again.
func sysfsNode(s System, d DeviceInfo) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(s.sys("class", "infiniband_verbs", d.Uverbs), &st)
	return st.Ino, err
}

// judge turns EIO of a call on the device into ErrRemoved when it means that. Drivers return it for
// failures of their own, too; but the kernel takes a device out of sysfs before it refuses calls.
func (c *Context) judge(err error) error {
	if errors.Is(err, unix.EIO) && c.Removed() {
		return errRemoved{}
	}
	return err
}

// judgeEvents does so for a read of an event file, for which EIO means nothing else.
func (c *Context) judgeEvents(err error) error {
	if errors.Is(err, unix.EIO) {
		c.removed.Store(true)
		return errRemoved{}
	}
	return err
}

// errRemoved is ErrRemoved and EIO in one line.
type errRemoved struct{}

func (errRemoved) Error() string   { return "the device was removed" }
func (errRemoved) Unwrap() []error { return []error{ErrRemoved, unix.EIO} }
