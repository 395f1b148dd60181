// SPDX-License-Identifier: Apache-2.0

package verbs

import "fmt"

// PortState is the logical state of a port (enum ibv_port_state).
type PortState uint8

// States of a port. Only an active port carries data; one in PortActiveDefer is active and its link has just failed.
const (
	PortNOP         PortState = 0
	PortDown        PortState = 1
	PortInit        PortState = 2
	PortArmed       PortState = 3
	PortActive      PortState = 4
	PortActiveDefer PortState = 5
)

func (s PortState) String() string {
	return name(s, []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}, "PortState")
}

// PortPhysState is the physical state of a port (enum ib_port_phys_state).
type PortPhysState uint8

// Physical states of a port. On Ethernet it is PhysLinkUp or PhysDisabled.
const (
	PhysSleep             PortPhysState = 1
	PhysPolling           PortPhysState = 2
	PhysDisabled          PortPhysState = 3
	PhysTraining          PortPhysState = 4
	PhysLinkUp            PortPhysState = 5
	PhysLinkErrorRecovery PortPhysState = 6
	PhysTest              PortPhysState = 7
)

func (s PortPhysState) String() string {
	return name(s, []string{"", "SLEEP", "POLLING", "DISABLED", "PORT_CONFIGURATION_TRAINING", "LINK_UP", "LINK_ERROR_RECOVERY", "PHY_TEST"}, "PortPhysState")
}

// LinkWidth is the number of lanes as ports encode it (enum ib_port_width).
type LinkWidth uint8

// Lanes is the number of lanes, 0 of an unknown width.
func (w LinkWidth) Lanes() int {
	return map[LinkWidth]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[w]
}

func (w LinkWidth) String() string {
	if n := w.Lanes(); n > 0 {
		return fmt.Sprintf("%dX", n)
	}
	return fmt.Sprintf("LinkWidth(%d)", uint8(w))
}

// LinkSpeed is the speed of a lane as ports encode it (enum ib_port_speed).
type LinkSpeed uint32

// linkSpeeds have the field's name of each speed and what it is in Gbit/s, rounded as rdma-core's tools do.
var linkSpeeds = map[LinkSpeed]struct {
	name string
	gbit float64
}{1: {"SDR", 2.5}, 2: {"DDR", 5}, 4: {"QDR", 10}, 8: {"FDR10", 10}, 16: {"FDR", 14}, 32: {"EDR", 25}, 64: {"HDR", 50}, 128: {"NDR", 100}, 256: {"XDR", 200}}

// Gbit is the speed in Gbit/s a lane, 0 of an unknown one.
func (s LinkSpeed) Gbit() float64 { return linkSpeeds[s].gbit }

func (s LinkSpeed) String() string {
	if l, ok := linkSpeeds[s]; ok {
		return l.name
	}
	return fmt.Sprintf("LinkSpeed(%d)", uint32(s))
}

// PortCaps are the capabilities of a port (CapabilityMask, IBTA volume 1, 14.2.5.6; enum ibv_port_cap_flags).
type PortCaps uint32

func (c PortCaps) String() string {
	return flagNames(uint64(c), []string{1: "SM", 2: "NOTICE", 3: "TRAP", 4: "OPT_IPD", 5: "AUTO_MIGR", 6: "SL_MAP", 7: "MKEY_NVRAM",
		8: "PKEY_NVRAM", 9: "LED_INFO", 10: "SM_DISABLED", 11: "SYS_IMAGE_GUID", 12: "PKEY_SW_EXT_PORT_TRAP", 14: "EXTENDED_SPEEDS",
		15: "CAP_MASK2", 16: "CM", 17: "SNMP_TUNNEL", 18: "REINIT", 19: "DEVICE_MGMT", 20: "VENDOR_CLASS", 21: "DR_NOTICE",
		22: "CAP_MASK_NOTICE", 23: "BOOT_MGMT", 24: "LINK_LATENCY", 25: "CLIENT_REG", 26: "IP_BASED_GIDS"})
}

// PortCaps2 are more capabilities of a port (CapabilityMask2; enum ibv_port_cap_flags2).
type PortCaps2 uint16

func (c PortCaps2) String() string {
	return flagNames(uint64(c), []string{"SET_NODE_DESC", "INFO_EXT", "VIRT", "SWITCH_PORT_STATE_TABLE", "LINK_WIDTH_2X", "LINK_SPEED_HDR",
		10: "LINK_SPEED_NDR", 12: "LINK_SPEED_XDR"})
}

// OnDemandCaps are what a device does with memory regions of AccessOnDemand.
type OnDemandCaps struct {
	Supported bool
	// Implicit: a region may be the whole address space.
	Implicit   bool
	RC, UC, UD OnDemandOps
}

// OnDemandOps are operations of a transport (enum ibv_odp_transport_cap_bits).
type OnDemandOps uint32

func (o OnDemandOps) String() string {
	return flagNames(uint64(o), []string{"SEND", "RECV", "WRITE", "READ", "ATOMIC", "SRQ_RECV", "FLUSH", "ATOMIC_WRITE"})
}

// PathMigState is the state of a QP's alternate path (IBTA volume 1, 17.2.8; enum ibv_mig_state).
type PathMigState uint8

// States of path migration.
const (
	PathMigrated PathMigState = 0
	PathRearm    PathMigState = 1
	PathArmed    PathMigState = 2
)

func (s PathMigState) String() string {
	return name(s, []string{"MIGRATED", "REARM", "ARMED"}, "PathMigState")
}
