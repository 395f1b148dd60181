// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
)

// A PortTakenError says that the UDP port of a device is in use. It unwraps to EADDRINUSE.
type PortTakenError struct {
	Addr netip.AddrPort
	// Holder is the process that has it ("name (pid 12)"), or empty when none can be found: a kernel
	// socket (rdma_rxe, a RoCE NIC's port reservation) or a process of another user.
	Holder string
}

// Error names the holder.
func (e *PortTakenError) Error() string {
	return fmt.Sprintf("UDP port %d of %v is taken: %s", e.Addr.Port(), e.Addr.Addr(), e.Held())
}

// Held says who holds the port.
func (e *PortTakenError) Held() string {
	if e.Holder == "" {
		return "no process that is visible here, so a kernel rxe device, a RoCE NIC or another user's process may hold it"
	}
	return "held by " + e.Holder
}

// PortTaken is the error of a UDP port that is in use at some address.
func PortTaken(port uint16) *PortTakenError {
	at := netip.AddrPortFrom(netip.Addr{}, port)
	return &PortTakenError{at, portHolder("/proc", at)}
}

// Unwrap returns EADDRINUSE.
func (e *PortTakenError) Unwrap() error { return unix.EADDRINUSE }

func portTakenError(a netip.Addr, port uint16) error {
	at := netip.AddrPortFrom(a, port)
	return &operr.Error{Op: "open", Object: "userroce", Err: &PortTakenError{at, portHolder("/proc", at)},
		Fix: "free it, or choose another port or address at both ends"}
}

// portHolder looks for a process with a UDP socket at a, which may be a port of any address, or at its port of all addresses, in
// the proc file system at root.
func portHolder(root string, a netip.AddrPort) string {
	inodes := map[string]bool{}
	for _, name := range []string{"udp", "udp6"} {
		addUDPInodes(filepath.Join(root, "self/net", name), a, inodes)
	}
	if len(inodes) == 0 {
		return ""
	}
	dirs, _ := filepath.Glob(filepath.Join(root, "[0-9]*"))
	for _, dir := range dirs {
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		for _, fd := range fds {
			link, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil {
				continue
			}
			inode, ok := strings.CutPrefix(link, "socket:[")
			if ok && inodes[strings.TrimSuffix(inode, "]")] {
				comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
				return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(comm)), filepath.Base(dir))
			}
		}
	}
	return ""
}

// addUDPInodes reads a table such as /proc/net/udp: field 1 is the local address, "0100007F:12B7", and
// field 9 the socket's inode.
func addUDPInodes(path string, a netip.AddrPort, inodes map[string]bool) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 10 || fields[9] == "0" {
			continue
		}
		addr, port, _ := strings.Cut(fields[1], ":")
		everywhere := strings.Trim(addr, "0") == "" || !a.Addr().IsValid()
		if port == fmt.Sprintf("%04X", a.Port()) && (everywhere || addr == procAddr(a.Addr())) {
			inodes[fields[9]] = true
		}
	}
}

// procAddr prints a as the kernel does there: 32-bit words as they are in memory.
func procAddr(a netip.Addr) string {
	var s strings.Builder
	for word := range slices.Chunk(a.AsSlice(), 4) {
		fmt.Fprintf(&s, "%08X", binary.NativeEndian.Uint32(word))
	}
	return s.String()
}
