// SPDX-License-Identifier: Apache-2.0

package vmjob

// Uplink is a VM's end of the cable to another VM, with an rxe device on it.
type Uplink struct {
	// Link is the name of the interface in the guest.
	Link string `json:"link"`
	// MTU in bytes. Path MTU 4096 needs 4176 or more.
	MTU int `json:"mtu"`
	// RDMA is the name of the rxe device.
	RDMA string `json:"rdma"`
	// Addrs are its addresses, as ADDRESS/BITS.
	Addrs []string `json:"addrs"`
}
