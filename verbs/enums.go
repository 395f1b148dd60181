// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"fmt"
	"strings"
)

// name looks a value up, or prints its number.
func name[T ~uint8 | ~uint32](v T, names []string, what string) string {
	if int(v) < len(names) && names[v] != "" {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", what, v)
}

// flagNames joins the names of the bits that are set; unnamed ones are printed in hexadecimal.
func flagNames(v uint64, names []string) string {
	var set []string
	for i, n := range names {
		if n != "" && v&(1<<i) != 0 {
			set = append(set, n)
			v &^= 1 << i
		}
	}
	if v != 0 || len(set) == 0 {
		set = append(set, fmt.Sprintf("%#x", v))
	}
	return strings.Join(set, "|")
}

// MTU is a path MTU as verbs encode it (enum ibv_mtu).
type MTU uint8

// The path MTUs of the IBTA specification.
const (
	MTU256  MTU = 1
	MTU512  MTU = 2
	MTU1024 MTU = 3
	MTU2048 MTU = 4
	MTU4096 MTU = 5
)

// Bytes is the largest payload of a packet; 0 for an invalid value.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// MTUFromBytes finds the path MTU of exactly n bytes.
func MTUFromBytes(n int) (MTU, error) {
	for m := MTU256; m <= MTU4096; m++ {
		if m.Bytes() == n {
			return m, nil
		}
	}
	return 0, fmt.Errorf("path MTU %d: it must be 256, 512, 1024, 2048 or 4096", n)
}

func (m MTU) String() string { return fmt.Sprint(m.Bytes()) }

// LinkLayer is what a port's link is made of.
type LinkLayer uint8

// Link layers.
const (
	LinkUnspecified LinkLayer = 0
	LinkInfiniBand  LinkLayer = 1
	LinkEthernet    LinkLayer = 2
)

func (l LinkLayer) String() string {
	return name(l, []string{"Unspecified", "InfiniBand", "Ethernet"}, "LinkLayer")
}

// GIDType tells which packets a GID stands for.
type GIDType uint32

// GID types.
const (
	GIDInfiniBand GIDType = 0
	GIDRoCEv1     GIDType = 1
	GIDRoCEv2     GIDType = 2
)

func (t GIDType) String() string { return name(t, []string{"IB", "RoCE v1", "RoCE v2"}, "GIDType") }

// AtomicCap tells towards whom atomic operations are atomic.
type AtomicCap uint32

// Atomicity of a device.
const (
	AtomicNone AtomicCap = 0
	AtomicHCA  AtomicCap = 1
	AtomicGlob AtomicCap = 2
)

func (a AtomicCap) String() string {
	return name(a, []string{"ATOMIC_NONE", "ATOMIC_HCA", "ATOMIC_GLOB"}, "AtomicCap")
}

// DeviceCaps are the capability bits of a device (enum ibv_device_cap_flags).
type DeviceCaps uint64

// Capability bits that this package's callers ask for.
const (
	CapMemWindow       DeviceCaps = 1 << 17
	CapMemWindowType2A DeviceCaps = 1 << 23
	CapMemWindowType2B DeviceCaps = 1 << 24
	CapRCRNRNak        DeviceCaps = 1 << 12
	CapSRQResize       DeviceCaps = 1 << 13
	CapFlushGlobal     DeviceCaps = 1 << 38
	CapFlushPersistent DeviceCaps = 1 << 39
	CapAtomicWrite     DeviceCaps = 1 << 40
)

var deviceCapNames = []string{
	0: "RESIZE_MAX_WR", 1: "BAD_PKEY_CNTR", 2: "BAD_QKEY_CNTR", 3: "RAW_MULTI", 4: "AUTO_PATH_MIG", 5: "CHANGE_PHY_PORT",
	6: "UD_AV_PORT_ENFORCE", 7: "CURR_QP_STATE_MOD", 8: "SHUTDOWN_PORT", 9: "INIT_TYPE", 10: "PORT_ACTIVE_EVENT",
	11: "SYS_IMAGE_GUID", 12: "RC_RNR_NAK_GEN", 13: "SRQ_RESIZE", 14: "N_NOTIFY_CQ", 17: "MEM_WINDOW", 18: "UD_IP_CSUM",
	20: "XRC", 21: "MEM_MGT_EXTENSIONS", 23: "MEM_WINDOW_TYPE_2A", 24: "MEM_WINDOW_TYPE_2B", 25: "RC_IP_CSUM",
	26: "RAW_IP_CSUM", 29: "MANAGED_FLOW_STEERING",
	34: "RAW_SCATTER_FCS", 36: "PCI_WRITE_END_PADDING", 38: "FLUSH_GLOBAL", 39: "FLUSH_PERSISTENT", 40: "ATOMIC_WRITE",
}

func (c DeviceCaps) String() string { return flagNames(uint64(c), deviceCapNames) }
