// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/transfertest"
	"github.com/sdr-rdma/go-sdr/internal/wiretest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// The kernel's rxe is on one side of a veth pair, userroce at the other, in a process and a network
// namespace of its own: where an rxe device is, it owns UDP port 4791.
const (
	peerEnv     = "SDR_SOFTROCE_PEER" // what the other process does: see runPeer
	peerNetdev  = "vi1"
	interopSize = 300_001
	rounds      = 2
	// wireZero is a peer that sends UDP checksum 0.
	wireZero = "wire0"
)

// TestInterop moves transfers between rxe and userroce in both directions, over a clean link and a
// long, bad one.
func TestInterop(t *testing.T) {
	for _, family := range []struct{ name, rxe, user string }{
		{"IPv4", "10.9.0.1/24", "10.9.0.2/24"}, {"IPv6", "fd00:9::1/64", "fd00:9::2/64"},
	} {
		for _, mtu := range []units.Bytes{1024, 4096} {
			for _, bad := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, MTU %d, loss %v", family.name, mtu, bad), func(t *testing.T) {
					interop(t, family.rxe, family.user, mtu, bad)
				})
			}
		}
	}
}

func interop(t *testing.T, rxe, user string, mtu units.Bytes, bad bool) {
	interopWith(t, "echo", rxe, user, mtu, bad)
}

// interopWith is interop with a peer that does what, which is to return transfers.
func interopWith(t *testing.T, what, rxe, user string, mtu units.Bytes, bad bool) {
	link := addVeth(t, "vi0", peerNetdev, 4200)
	p := startPeer(t, fmt.Sprintf("%s %d %s true", user, mtu, what))
	require.NoError(t, addAddr(link, rxe))
	d, err := softroce.Open(softroce.Config{Netdev: "vi0", Addr: netip.MustParsePrefix(rxe).Addr(), MTU: mtu, Logger: quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	c := newContext(t, d)
	conn, err := newConn(c, interopQP(mtu))
	require.NoError(t, err)
	ctx := deadline(t)
	info := p.exchange(t, conn.Info())
	discover(t, link, netip.MustParsePrefix(user).Addr())
	require.NoError(t, conn.Connect(ctx, info))
	if bad {
		impair(t, wan, "vi0")
	}
	src, dst := transfertest.Memory(t, c, interopSize, 9), transfertest.Memory(t, c, interopSize, 0)
	for i := range rounds {
		src.Bytes()[i] ^= 0xff
		require.NoError(t, conn.Send(ctx, src, 0, interopSize, sdr.SendOptions{}))
		got, err := conn.Recv(ctx, dst, 0, interopSize)
		require.NoError(t, err)
		require.EqualValues(t, interopSize, got.Length)
		require.True(t, bytes.Equal(src.Bytes(), dst.Bytes()), "content after the way there and back")
		// The two have no session. Who closes as soon as it has everything can't repeat COMPLETED, which the link may have lost: the
		// peer would wait for it until its NoProgress.
		require.Equal(t, "sent", p.line(t))
	}
	require.NoError(t, conn.Close())
}

func interopQP(mtu units.Bytes) sdr.QPConfig {
	return sdr.QPConfig{MTU: mtu, Channels: 2, Generations: 2, MSL: 50 * ms}
}

// peer is the process with userroce.
type peer struct {
	cmd *exec.Cmd
	in  *bufio.Reader
	out *os.File
}

// startPeer starts the process in a new namespace and moves its interface there. When the test ends, and after what the test
// has opened since was closed, the process is told to end, and requires then that it did its part.
//
// The order matters: with the namespace goes its interface, with that the other half of the pair, and with that an rxe device on it.
// When netlink removes the device at the same time, Linux 7 can free its sockets twice (docs/softroce.md, "What to know").
func startPeer(t *testing.T, orders string) *peer {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), peerEnv+"="+orders)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdoutPipe()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd.Stdin = r
	require.NoError(t, cmd.Start())
	require.NoError(t, r.Close())
	t.Cleanup(func() {
		w.Close()
		stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		defer stuck.Stop()
		require.NoError(t, cmd.Wait(), "the peer")
	})
	link, err := netlink.LinkByName(peerNetdev)
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetNsPid(link, cmd.Process.Pid))
	_, err = fmt.Fprintln(w, "go")
	require.NoError(t, err)
	return &peer{cmd: cmd, in: bufio.NewReader(in), out: w}
}

// exchange sends our info and returns the peer's.
func (p *peer) exchange(t *testing.T, info []byte) []byte {
	t.Helper()
	p.say(t, hex.EncodeToString(info))
	b, err := hex.DecodeString(p.line(t))
	require.NoError(t, err)
	return b
}

func addAddr(link netlink.Link, addr string) error {
	a, err := netlink.ParseAddr(addr)
	if err != nil {
		return err
	}
	a.Flags = syscall.IFA_F_NODAD
	return netlink.AddrAdd(link, a)
}

// discover waits until the kernel knows the neighbour at addr, which must be up. Connecting a queue pair would do so as well, but it misses
// an answer that comes as fast as it does from a namespace, and looks again after a second.
func discover(t *testing.T, link netlink.Link, addr netip.Addr) {
	t.Helper()
	conn, err := net.Dial("udp", netip.AddrPortFrom(addr, discard).String())
	require.NoError(t, err)
	defer conn.Close()
	require.Eventually(t, func() bool {
		_, _ = conn.Write(nil) // nobody listens there
		neighbours, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_ALL)
		require.NoError(t, err)
		return slices.ContainsFunc(neighbours, func(n netlink.Neigh) bool { return n.IP.String() == addr.String() && len(n.HardwareAddr) > 0 })
	}, 30*time.Second, time.Millisecond)
}

// discard is the port of a service that throws away what it gets (RFC 863).
const discard = 9

// beThePeer is the whole life of the other process. When it has done its part it stays until it is told to end: see startPeer.
func beThePeer() error {
	if err := runPeer(); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// runPeer is what the other process does: it opens userroce on an address, with or without
// the kernel's segmentation offloads, and then either sends back the transfers that it gets, with the
// SDK, or is one side of a cell of the matrix: "ADDRESS MTU echo|wire|wire0 OFFLOAD". As "ADDRESS MTU mlx5 true" it is one side of
// a cell on a fake mlx5 device (see rxe_mlx5_test.go).
func runPeer() error {
	var addr, what string
	var mtu units.Bytes
	var offload bool
	if _, err := fmt.Sscan(os.Getenv(peerEnv), &addr, &mtu, &what, &offload); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	link, err := netlink.LinkByName(peerNetdev)
	if err != nil {
		return err
	}
	if err := addAddr(link, addr); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	if what == "mlx5" {
		return runMLX5Peer(addr)
	}
	d, err := userroce.Open(userroce.Config{Addr: netip.MustParsePrefix(addr).Addr(), Logger: quiet(), DisableGSO: !offload, DisableGRO: !offload})
	if err != nil {
		return err
	}
	defer d.Close()
	switch what {
	case "wire":
		return wiretest.Serve(d, mtu, in, os.Stdout, func() error { return nil })
	case wireZero:
		return wiretest.Serve(d, mtu, in, os.Stdout, dropChecksums)
	}
	c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 1})
	if err != nil {
		return err
	}
	defer c.Close()
	return echo(c, in, mtu)
}

// echo connects to who speaks on in, returns each transfer and says so when all of it was acknowledged.
func echo(c *sdr.Endpoint, in *bufio.Reader, mtu units.Bytes) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := newConn(c, interopQP(mtu))
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Println(hex.EncodeToString(conn.Info()))
	line, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	info, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	if err := conn.Connect(ctx, info); err != nil {
		return err
	}
	mr, err := c.RegisterMemory(make([]byte, interopSize), sdr.AccessRemoteWrite)
	if err != nil {
		return err
	}
	for range rounds {
		got, err := conn.Recv(ctx, mr, 0, interopSize)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		if err := conn.Send(ctx, mr, 0, got.Length, sdr.SendOptions{}); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		fmt.Println("sent")
	}
	return nil
}

// dropChecksums has all UDP sockets of this process send checksum 0.
func dropChecksums() error {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	changed := 0
	for _, f := range files {
		fd, err := strconv.Atoi(f.Name())
		if err != nil {
			return err
		}
		if proto, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || proto != unix.IPPROTO_UDP {
			continue // ENOTSOCK, or the descriptor of /proc/self/fd, which is closed
		}
		level, option := unix.SOL_SOCKET, unix.SO_NO_CHECK
		if domain, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); domain == unix.AF_INET6 {
			level, option = unix.SOL_UDP, unix.UDP_NO_CHECK6_TX
		}
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return err
		}
		changed++
	}
	if changed == 0 {
		return errors.New("this process has no UDP socket")
	}
	return nil
}
