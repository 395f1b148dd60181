// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"math/bits"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/operr"
)

// steerMask covers the low bits of a QPN that say which of n workers it belongs to.
func steerMask(n int) uint32 { return 1<<bits.Len(uint(n-1)) - 1 }

// steer makes the kernel choose among the n sockets that share fd's port by the low bits of the
// destination QPN, which is in bytes 5 to 7 of the UDP payload, where such a program's offset 0 is. It
// is a classic BPF program because that needs no privilege. The kernel falls back to a hash for a result
// beyond the group, gives payloads shorter than 8 bytes to socket 0, and looks at the first packet of a
// GRO train only.
func steer(fd, n int) error {
	prog := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: steerMask(n)},
		{Code: unix.BPF_RET | unix.BPF_A},
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &fprog); err != nil {
		return operr.New("open", "userroce", "steer packets to %d sockets: %w (set Config.Workers to 1)", n, err)
	}
	return nil
}
