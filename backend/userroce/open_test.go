// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestConfigErrors(t *testing.T) {
	for _, x := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Addr = netip.IPv4Unspecified() }, "give the address of one interface"},
		{func(c *Config) { c.Addr = netip.MustParseAddr("224.0.0.1") }, "give the address of one interface"},
		{func(c *Config) { c.Addr = netip.MustParseAddr("203.0.113.77") }, "not an address of this host"},
		{func(c *Config) { c.Addr = netip.MustParseAddr("fe80::1") }, "say which interface, as in fe80::1%eth0"},
		{func(c *Config) { c.Addr = netip.MustParseAddr("fe80::1%nonesuch0") }, `no interface "nonesuch0"`},
		{func(c *Config) { c.Workers = 9 }, "9 workers: choose 1 to 8"},
		{func(c *Config) { c.Workers = -1 }, "-1 workers"},
		{func(c *Config) { c.SendSockets = 257 }, "257 send sockets"},
		{func(c *Config) { c.RecvBuffer = -1 }, "socket buffers"},
		{func(c *Config) { c.SendBuffer = units.GiB + 1 }, "and 1073741825 bytes: choose at most 1 GiB"},
	} {
		c := testConfig(t, false)
		x.change(&c)
		_, err := Open(c)
		require.ErrorContains(t, err, x.want)
	}
}

func TestCaps(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		d := openTest(t, testConfig(t, v6))
		c := d.Caps()
		require.Equal(t, "userroce", c.Backend)
		require.True(t, c.RootKey && c.FullSequence && c.HostPackets)
		require.EqualValues(t, 4096, c.PathMTU, "loopback carries everything")
		require.Equal(t, map[bool]units.Bytes{false: 64, true: 84}[v6], c.HeaderBytes)
		// What the kernel granted holds that many 4 KiB packets even in the worst case measured: 15
		// packets in 212992 bytes.
		granted, err := unix.GetsockoptInt(d.receivers[0].fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
		require.NoError(t, err)
		require.Positive(t, c.RecvBurst)
		require.LessOrEqual(t, int64(c.RecvBurst), int64(granted)*15*4096/212992)
		require.LessOrEqual(t, d.Now(), d.Now())
	})
}

// TestRecvBurst sends a burst of RecvBurst, packet by packet, to a device with a small buffer that
// doesn't poll meanwhile.
func TestRecvBurst(t *testing.T) {
	for _, mtu := range []units.Bytes{256, 1024, 4096} {
		a, b := newPair(t, false, func(a, b *sideConfig) {
			a.DisableGSO, b.RecvBuffer, a.mtu, b.mtu = true, 106496, mtu, mtu
		})
		burst := b.d.Caps().RecvBurst
		require.Less(t, burst, testMax)
		rkey, va := b.expose(0, 0, testMax)
		w := a.message(rkey, va, burst, mtu)
		a.post(w...)
		require.Len(t, b.poll(len(w)), len(w))
	}
}

func TestBufferWarning(t *testing.T) {
	var log bytes.Buffer
	c := testConfig(t, false)
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.RecvBuffer = units.GiB
	d := openTest(t, c)
	if d.receivers[0].granted >= units.GiB {
		require.Empty(t, log.String()) // SO_RCVBUFFORCE was allowed
		openClamped(t, d)
	}
	require.Contains(t, log.String(), "net.core.rmem_max")
	require.Contains(t, log.String(), "addr="+c.Addr.String())
}

// openClamped repeats the set-up of a receiver as it goes without privilege.
func openClamped(t *testing.T, d *Device) {
	force := recvBufferOptions.force
	recvBufferOptions.force = -1 // an option that doesn't exist
	defer func() { recvBufferOptions.force = force }()
	require.NoError(t, d.receivers[0].setUp())
	if d.receivers[0].granted >= units.GiB {
		t.Skip("net.core.rmem_max is 1 GiB or more here: nothing to warn about")
	}
}

func TestPortTaken(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, workers := range []int{1, 4} {
			c := testConfig(t, v6)
			c.Workers = workers
			first := openTest(t, c)
			c.Port = first.Addr().Port()
			for _, again := range []int{1, 4} {
				c.Workers = again
				_, err := Open(c)
				require.ErrorIs(t, err, unix.EADDRINUSE)
				var portTaken *PortTakenError
				require.True(t, errors.As(err, &portTaken))
				require.Equal(t, first.Addr(), portTaken.Addr)
				require.Contains(t, portTaken.Holder, fmt.Sprintf("(pid %d)", os.Getpid()))
				require.ErrorContains(t, err, fmt.Sprintf("UDP port %d of %v is taken: held by ", c.Port, c.Addr))
				require.ErrorContains(t, err, "(free it, or choose another port")
			}
		}
	})
}

// TestPortHolder reads a proc file system where the port's socket is nobody's, as with kernel rxe.
func TestPortHolder(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"self/net/udp": "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
			"  1: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4711 2 0 0\n" +
			"  2: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4712 2 0 0\n" +
			"  3: garbage\n",
		"self/net/udp6": "header\n" +
			"  1: 00000000000000000000000001000000:0036 00000000000000000000000000000000:0000 07 0:0 00:0 0 0 0 4712 2 0 0\n",
		"12/comm": "dnsmasq\n",
		"13/comm": "noaccess\n",
	} {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(root, "12/fd"), 0o755))
	require.NoError(t, os.Symlink("socket:[4712]", filepath.Join(root, "12/fd/5")))
	at := netip.MustParseAddrPort
	require.Equal(t, "dnsmasq (pid 12)", portHolder(root, at("127.0.0.1:53")))
	require.Equal(t, "dnsmasq (pid 12)", portHolder(root, at("[::1]:54")))
	require.Empty(t, portHolder(root, at("[::2]:54")))
	require.Equal(t, "dnsmasq (pid 12)", portHolder(root, netip.AddrPortFrom(netip.Addr{}, 54)), "at any address")
	require.Empty(t, portHolder(root, at("127.0.0.1:4791")), "the kernel's")
	require.Empty(t, portHolder(root, at("127.0.0.1:1")))
	require.ErrorContains(t, &PortTakenError{}, "a kernel rxe device, a RoCE NIC or another user's process")
}

func TestSourcePorts(t *testing.T) {
	c := testConfig(t, false)
	first := openTest(t, c)
	c.Port = AnyPort
	second := openTest(t, c)
	require.NotEqual(t, first.port, second.port)
	seen := map[uint16]bool{}
	for _, d := range []*Device{first, second} {
		require.Len(t, d.senders, 16)
		for _, s := range d.senders {
			require.GreaterOrEqual(t, s.port, uint16(firstSourcePort))
			require.False(t, seen[s.port])
			seen[s.port] = true
		}
	}
	require.EqualValues(t, firstSourcePort, first.senders[0].port)

	// At the end of the range any port will do.
	fd, err := newSocket(false)
	require.NoError(t, err)
	defer unix.Close(fd)
	block := newStranger(t, c.Addr, first)
	port, given, err := bindSource(fd, c.Addr, 0, int(block.from.Port())<<16|1<<16)
	require.NoError(t, err)
	require.NotZero(t, port)
	require.True(t, given)
}

// TestPortOfEachChannel: 256 channels leave from as many ports, opened as they are needed; more share them, and so do
// all where there are fewer sockets.
func TestPortOfEachChannel(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for sockets, want := range map[int]int{0: maxSendSockets, 3: 3, 40: 40} {
			a, b := newPair(t, v6, func(a, _ *sideConfig) { a.SendSockets = sockets })
			from, to := a.newUD(), b.newUD()
			old, err := a.d.OpenAddress(to.Info())
			require.NoError(t, err)
			ports := map[uint16]int{}
			var last backend.QP
			for channel := range 2 * maxSendSockets {
				q, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, Table: a.table, MTU: 4096, Channel: channel})
				require.NoError(t, err)
				port := q.(*queuePair).sender.port
				if at, known := ports[port]; known {
					require.Equal(t, at, channel%want, "channel %d", channel)
				}
				ports[port] = channel % want
				if channel == want-1 {
					last = q
				}
			}
			require.Len(t, ports, want)
			require.Len(t, a.d.senders, want)

			// From the newest socket data arrives, and so does a datagram to an address that is older.
			peer, err := b.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: b.cq, RecvCQ: b.cq, Table: b.table, MTU: 4096})
			require.NoError(t, err)
			require.NoError(t, last.Connect(peer.Info()))
			require.NoError(t, peer.Connect(last.Info()))
			rkey, va := b.expose(0, 0, testMax)
			fill(a.mem[:4096], 7)
			data := []byte("along")
			w := []backend.Write{{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 4096}}
			n, carried, err := last.(backend.Carrier).PostWritesWith(a.d.Now(), w, from, backend.Datagram{To: old, Data: data})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, want <= firstSendSockets || sockets == 40, carried)
			b.pollFor("the newest socket", 1, data, carried)
			sameBytes(t, a.mem[:4096], b.mem[:4096])
			require.EqualValues(t, 1+map[bool]int{true: 1}[carried], a.d.Stats().PacketsSent)
		}
	})
}

// TestMTUErrors: the error names the interface's MTU and the needed one.
func TestMTUErrors(t *testing.T) {
	for _, x := range []struct {
		mtu, limit units.Bytes
		v6         bool
		want       string
	}{
		{4096, 1500, false, "MTU 4096 needs IP packets of 4160 bytes, and interface x has MTU 1500: use MTU 1024 or raise the interface's"},
		{4096, 4159, false, "MTU 4096 needs IP packets of 4160 bytes, and interface x has MTU 4159: use MTU 2048"},
		{4096, 4160, false, ""},
		{4096, 4179, true, "MTU 4096 needs IP packets of 4180 bytes, and interface x has MTU 4179"},
		{4096, 4180, true, ""},
		{256, 300, false, "interface x has MTU 300: raise the interface's MTU"},
	} {
		err := checkMTU("open", x.mtu, x.limit, x.v6, "interface x")
		if x.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, x.want)
		require.ErrorIs(t, err, unix.EMSGSIZE)
	}
	// Through the device, with an interface that is smaller than it is.
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	e.d.iface = iface{"eth9", 1500}
	_, err := e.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, MTU: 2048})
	require.ErrorContains(t, err, "MTU 2048 needs IP packets of 2112 bytes, and interface eth9 has MTU 1500")
	require.EqualValues(t, 1024, e.d.makeCaps().PathMTU)
	e.d.iface.mtu = 100
	require.Zero(t, e.d.makeCaps().PathMTU)
}

// TestTooLarge: what the kernel finds too large is lost and counted.
func TestTooLarge(t *testing.T) {
	a, b := newPair(t, false)
	rkey, va := b.expose(0, 0, testMax)
	q := a.qp.(*queuePair)
	q.mtu = 70000 // what the path doesn't carry; the checks before would have refused it
	w := []backend.Write{
		{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 16, Imm: 1},
		{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 66000, Imm: 2},
		{VA: va, RKey: rkey, LKey: a.mr.LKey(), Length: 16, Imm: 3},
	}
	n, err := a.qp.PostWrites(0, w)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.EqualValues(t, 1, a.d.WireStats().TooLarge)
	require.Len(t, b.poll(2), 2)
}

// TestNoInterfaces: where interfaces can't be listed, as in a sandbox that refuses netlink's sockets, the error says what to allow.
func TestNoInterfaces(t *testing.T) {
	for cause, fix := range map[syscall.Errno]string{unix.EAFNOSUPPORT: "RestrictAddressFamilies", unix.EPERM: "RestrictAddressFamilies", unix.EMFILE: "ulimit -n"} {
		err := noInterfaces(&net.OpError{Op: "route", Net: "ip+net", Err: os.NewSyscallError("netlinkrib", cause)})
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, fix)
	}
}

// TestNoDescriptors: a process whose limit of open files is used up hears which limit it is, and leaves no socket open.
func TestNoDescriptors(t *testing.T) {
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	low, err := unix.Dup(0) // the lowest free one: no descriptor from here on but for the device's first few
	require.NoError(t, err)
	require.NoError(t, unix.Close(low))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(low) + 4, Max: was.Max}))
	_, err = Open(Config{Port: AnyPort})
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &was))
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, "ulimit -n")
	require.ErrorContains(t, err, "with more than 16 channels one for each")
	again, err := unix.Dup(0)
	require.NoError(t, err)
	require.NoError(t, unix.Close(again))
	require.Equal(t, low, again)
}
