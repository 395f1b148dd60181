// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// Idle tells whether the devices have done all that programs had asked of them before, and nothing is under way between them. It has
// the devices do what they can do at once. While it is false and nobody rings a doorbell, it becomes true: late packets arrive, and
// requests that wait for a receive request are given up, unless they were to wait for ever.
func (h *Host) Idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.devices {
		if d.advance() {
			return false // which may have given the others something to do
		}
	}
	if len(h.wire.late) > 0 {
		return false
	}
	for _, d := range h.devices {
		if d.pending() {
			return false
		}
	}
	return h.arrived()
}

// pending tells whether a device waits for a time; Host.mu is held.
func (d *Device) pending() bool {
	if d.removed {
		return false
	}
	for _, q := range d.qps {
		if q.state == stateRTS && q.sqDone != q.sqPosted {
			return true
		}
	}
	return len(d.placing) > 0 || d.port != nil && len(d.port.late) > 0
}

// arrived tells whether the ports on the machine's network have taken all packets that they have sent each other, but those that
// their sockets had no room for. What the network has taken may be in none of the sockets yet.
func (h *Host) arrived() bool {
	sent, taken := 0, 0
	for _, d := range h.devices {
		if d.port != nil {
			sent, taken = sent+d.port.sentInside, taken+d.port.takenInside
		}
	}
	if sent == taken {
		return true
	}
	for _, d := range h.devices {
		if d.port != nil {
			taken += droppedBy(d.port.here)
		}
	}
	return sent == taken
}

// inside tells whether an address is that of one of the host's ports on the machine's network.
func (h *Host) inside(addr netip.Addr) bool {
	for _, d := range h.devices {
		if d.port != nil && d.port.here.Addr() == addr {
			return true
		}
	}
	return false
}

// droppedBy is how many packets the kernel had no room for in the UDP socket that is bound to an IPv4 address and port, as
// /proc/net/udp has it: addresses in hexadecimal, the IP address in the machine's byte order, the drops in the last field.
func droppedBy(here netip.AddrPort) (drops int) {
	table, err := os.ReadFile("/proc/self/net/udp")
	if err != nil {
		return 0
	}
	a := here.Addr().As4()
	local := fmt.Sprintf("%08X:%04X", le.Uint32(a[:]), here.Port())
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == local {
			_, _ = fmt.Sscan(f[len(f)-1], &drops)
		}
	}
	return drops
}
