// SPDX-License-Identifier: Apache-2.0

// Package addr turns memory into the addresses that a device is told.
package addr

import "unsafe"

// Of is the address of the first byte of b, which must not be empty. The caller keeps b reachable
// as long as the device may use the address.
func Of(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
