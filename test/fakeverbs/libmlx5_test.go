// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/watched"
)

func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}

// stuck is how long a program may take: far more than it does.
const stuck = 90 * time.Second

// ports of the devices of a test.
var ports = []Port{{Name: "fake0", Addr: netip.MustParseAddr("192.0.2.1")}, {Name: "fake1", Addr: netip.MustParseAddr("192.0.2.2")}}

// newHost makes a host with these devices, or else those of ports.
func newHost(t *testing.T, devices ...Port) *Host {
	t.Helper()
	if len(devices) == 0 {
		devices = ports
	}
	h, err := NewHost(devices...)
	require.NoError(t, err)
	var mu sync.Mutex
	var log strings.Builder
	h.Log = func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if log.Len() < 1<<20 {
			fmt.Fprintf(&log, format+"\n", args...)
		}
	}
	t.Cleanup(func() {
		h.Close()
		for _, d := range h.devices {
			assert.Empty(t, d.stats.Violations, "what hardware would not forgive")
			assert.Empty(t, d.contexts, "open files")
			assert.Empty(t, d.keys, "memory keys")
			assert.Empty(t, d.qps, "queue pairs")
		}
		if t.Failed() {
			mu.Lock()
			defer mu.Unlock()
			t.Log(log.String())
		}
	})
	return h
}

// needProgram skips where a program of rdma-core, or its provider for mlx5, isn't installed.
func needProgram(t *testing.T, names ...string) {
	t.Helper()
	needLibrary(t, "libmlx5", names...)
}

// needLibrary skips where a program of rdma-core, or one of its providers, isn't installed.
func needLibrary(t *testing.T, library string, names ...string) {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/*/libibverbs/" + library + "-rdmav*.so")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip(library + " isn't installed: apt-get install ibverbs-providers")
	}
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s isn't installed: apt-get install ibverbs-utils perftest", name)
		}
	}
}

// program is one that runs on a host, and what it says.
type program struct {
	*Program
	out  *watched.Buffer
	name string
}

func start(t *testing.T, h *Host, name string, args ...string) *program {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	return startCommand(t, h, exec.Command(path, args...))
}

func startCommand(t *testing.T, h *Host, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{out: &watched.Buffer{}, name: strings.Join(cmd.Args, " ")}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	var err error
	p.Program, err = h.Start(cmd)
	require.NoError(t, err)
	timer := time.AfterFunc(stuck, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop(); _ = cmd.Process.Kill() })
	return p
}

func (p *program) wait(t *testing.T) string {
	t.Helper()
	err := p.Wait()
	out := p.out.String()
	require.NoError(t, err, "%s:\n%s", p.name, out)
	return out
}

// freePort is a TCP port that a test's programs meet at. It is below those that the kernel gives to whoever asks for any
// (net.ipv4.ip_local_port_range), so that nobody gets it until the server is there.
func freePort(t *testing.T) string {
	t.Helper()
	const least, most, tries = 20_000, 32_000, 100
	for range tries {
		port := strconv.Itoa(least + rand.IntN(most-least))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	require.Fail(t, "no port is free")
	return ""
}

// pair runs a server on the host's first device and its client on the second; both take -p for the port, and the client the
// server's name. It returns what they said.
func pair(t *testing.T, h *Host, name string, args ...string) (server, client string) {
	t.Helper()
	port := freePort(t)
	s := start(t, h, name, append([]string{"-p", port, "-d", h.devices[0].name}, args...)...)
	waitListening(t, port, s)
	c := start(t, h, name, append(append([]string{"-p", port, "-d", h.devices[1].name}, args...), "127.0.0.1")...)
	client = c.wait(t)
	return s.wait(t), client
}

// waitListening waits until somebody listens on a port, without taking the connection from its client.
func waitListening(t *testing.T, port string, p *program) {
	t.Helper()
	var n int
	_, err := fmt.Sscan(port, &n)
	require.NoError(t, err)
	want := fmt.Sprintf(":%04X ", n)
	require.Eventually(t, func() bool {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			b, _ := os.ReadFile(file)
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				if len(f) > 3 && strings.HasSuffix(f[1]+" ", want) && f[3] == "0A" {
					return true
				}
			}
		}
		return false
	}, stuck/3, 10*time.Millisecond, "%s doesn't listen: %s", p.name, p.out)
}

func TestLibMLX5Devinfo(t *testing.T) {
	needProgram(t, "ibv_devinfo")
	out := start(t, newHost(t), "ibv_devinfo", "-v").wait(t)
	for _, want := range []string{"hca_id:\tfake0", "hca_id:\tfake1", "fw_ver:\t\t\t\t16.35.1012", "vendor_part_id:\t\t\t4119",
		"PORT_ACTIVE (4)", "::ffff:192.0.2.1, RoCE v2", "::ffff:192.0.2.2, RoCE v2", "Ethernet"} {
		assert.Contains(t, out, want)
	}
}

// TestLibMLX5Pingpong runs the examples of rdma-core, which check what arrives.
func TestLibMLX5Pingpong(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"ibv_rc_pingpong", []string{"-c", "-n", "200"}},
		{"ibv_rc_pingpong", []string{"-c", "-n", "50", "-e"}}, // sleeps until the completion queue's event
		{"ibv_rc_pingpong", []string{"-c", "-n", "200", "-s", "1000000", "-m", "4096"}},
		{"ibv_rc_pingpong", []string{"-c", "-n", "200", "-s", "16"}}, // into the completion
		{"ibv_rc_pingpong", []string{"-n", "200", "-N"}},             // the extended API
		{"ibv_uc_pingpong", []string{"-c", "-n", "200"}},
		{"ibv_uc_pingpong", []string{"-n", "50", "-e"}},
		{"ibv_ud_pingpong", []string{"-c", "-n", "200", "-s", "1024"}},
		{"ibv_srq_pingpong", []string{"-c", "-n", "200", "-q", "4"}},
	} {
		t.Run(tc.name+strings.Join(tc.args, ""), func(t *testing.T) {
			needProgram(t, tc.name)
			h := newHost(t)
			server, client := pair(t, h, tc.name, append(tc.args, "-g", "0")...)
			assert.Contains(t, server, " iters in ")
			assert.Contains(t, client, " iters in ")
			for _, d := range h.devices {
				assert.NotZero(t, d.Stats().Doorbells)
				assert.Zero(t, d.Stats().Dropped)
			}
		})
	}
}

// TestLibMLX5Perftest runs the benchmarks that people judge adapters by.
func TestLibMLX5Perftest(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"ib_write_bw", []string{"-c", "UC", "-n", "1000"}},
		{"ib_write_bw", []string{"-c", "UC", "-s", "4096", "-n", "1000", "-q", "4"}},
		{"ib_write_bw", []string{"-c", "RC", "-s", "4096", "-n", "1000"}},
		{"ib_write_bw", []string{"-c", "RC", "-s", "64", "-n", "1000", "-I", "64"}}, // inline
		{"ib_write_lat", []string{"-c", "UC", "-s", "64", "-n", "1000"}},
		{"ib_read_bw", []string{"-s", "4096", "-n", "1000"}},
		{"ib_send_bw", []string{"-c", "UD", "-s", "1024", "-n", "1000", "-r", "1000"}},
		{"ib_send_bw", []string{"-c", "RC", "-s", "4096", "-n", "1000"}},
		{"ib_atomic_bw", []string{"-A", "FETCH_AND_ADD", "-n", "200"}},
		{"ib_atomic_bw", []string{"-A", "CMP_AND_SWAP", "-n", "200"}},
	} {
		t.Run(tc.name+strings.Join(tc.args, ""), func(t *testing.T) {
			needProgram(t, tc.name)
			h := newHost(t)
			_, client := pair(t, h, tc.name, append(tc.args, "-x", "0", "-F")...)
			assert.Contains(t, client, "#bytes")
			for _, d := range h.devices {
				assert.Zero(t, d.Stats().Dropped)
			}
		})
	}
}

// TestLibMLX5OverRoCE lets benchmarks on libmlx5 write and send through two devices that are connected by the machine's network:
// messages of many packets and of one, and datagrams, from the source ports that their drivers choose.
func TestLibMLX5OverRoCE(t *testing.T) {
	for i, tc := range []struct {
		name string
		args []string
	}{
		{"ib_write_bw", []string{"-c", "UC", "-s", "65536", "-n", "500", "-t", "16"}},
		{"ib_write_bw", []string{"-c", "UC", "-s", "4096", "-n", "1000", "-q", "4"}},
		{"ib_write_lat", []string{"-c", "UC", "-s", "64", "-n", "200"}},
		{"ib_send_lat", []string{"-c", "UC", "-s", "20000", "-n", "200"}},
		{"ib_send_lat", []string{"-c", "UD", "-s", "1000", "-n", "200"}},
	} {
		t.Run(tc.name+strings.Join(tc.args, ""), func(t *testing.T) {
			needProgram(t, tc.name)
			pid := os.Getpid()
			addr := netip.AddrFrom4([4]byte{127, 128 | byte(pid>>16&63), byte(pid >> 8), byte(pid)&^15 | byte(2*i+1)})
			h := newHost(t, Port{Name: "fake0", Addr: addr, RoCE: true}, Port{Name: "fake1", Addr: addr.Next(), RoCE: true})
			_, client := pair(t, h, tc.name, append(tc.args, "-x", "0", "-F")...)
			assert.Contains(t, client, "#bytes")
			sent, received := 0, 0
			for _, d := range h.devices {
				s := d.Stats()
				sent, received = sent+s.PacketsSent, received+s.PacketsReceived
				assert.Zero(t, s.BadICRC)
				assert.Zero(t, s.Dropped)
			}
			// Where sockets have small buffers some are lost, of which unreliable writes hear nothing.
			assert.Greater(t, received, sent/2, "of %d packets", sent)
			assert.LessOrEqual(t, received, sent)
		})
	}
}
