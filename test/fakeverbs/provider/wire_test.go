// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package provider

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/transfertest"
	"github.com/sdr-rdma/go-sdr/internal/wiretest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// openUserroce opens the RoCEv2 endpoint in user space on an address beside the devices'.
func openUserroce(t testing.TB) *userroce.Device {
	t.Helper()
	d, err := userroce.Open(userroce.Config{Addr: openUC(t, netA, false).Addr().Next().Next(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// TestWireMatrix lets fake mlx5 devices and userroce write into each other's memory in RoCEv2 packets, whose ICRC each checks.
func TestWireMatrix(t *testing.T) {
	mlx5 := func(name string, keyPerMessage bool) func(testing.TB) backend.Device {
		return func(t testing.TB) backend.Device { return openUC(t, name, keyPerMessage) }
	}
	user := func(t testing.TB) backend.Device { return openUserroce(t) }
	for _, c := range []struct {
		name string
		a, b func(testing.TB) backend.Device
	}{
		{"mlx5 and mlx5", mlx5(netA, false), mlx5(netB, false)},
		{"mlx5 and mlx5 with a key per message", mlx5(netA, false), mlx5(netB, true)},
		{"mlx5 and userroce", mlx5(netA, false), user},
		{"userroce and mlx5", user, mlx5(netB, false)},
		{"mlx5 and mlx5 on a wire of their own", mlx5(devA, false), mlx5(devB, false)},
	} {
		for _, mtu := range []units.Bytes{256, 1024, 4096} {
			t.Run(fmt.Sprintf("%s, MTU %d", c.name, mtu), func(t *testing.T) { cell(t, c.a(t), c.b(t), mtu) })
		}
	}
}

// cell runs one cell of the matrix: b receives everything, and then sends everything.
func cell(t *testing.T, a, b backend.Device, mtu units.Bytes) {
	toB, fromA := io.Pipe()
	toA, fromB := io.Pipe()
	end := make(chan error, 1)
	go func() {
		err := wiretest.Serve(b, mtu, bufio.NewReader(toB), fromB, func() error { return nil })
		_ = fromB.CloseWithError(err)
		end <- err
	}()
	in := bufio.NewReader(toA)
	line := func() string {
		s, err := in.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(s)
	}
	say := func(s string) {
		_, err := fmt.Fprintln(fromA, s)
		require.NoError(t, err)
	}
	e, err := wiretest.NewEnd(a, mtu)
	require.NoError(t, err)
	require.NoError(t, e.Connect(line()))
	say(e.Describe())
	require.Equal(t, "ready", line())
	require.NoError(t, e.Send())
	require.Equal(t, "received", line())
	say("go")
	require.NoError(t, e.Receive())
	require.NoError(t, <-end)
}

// TestSelectiveRepeat moves transfers in both directions: between two devices whose wire loses 1 % of the packets, and doubles and delays
// some, between two over the machine's network with the same loss, and between one there and userroce.
func TestSelectiveRepeat(t *testing.T) {
	size := 8 * units.MiB
	if testing.Short() {
		size = 4 * units.MiB
	}
	t.Run("1 % loss", func(t *testing.T) {
		impair(t, backendtest.Faults{Loss: 0.01})
		lost := repeat(t, openUC(t, devA, false), openUC(t, devB, false), size)
		require.NotZero(t, lost, "units sent again")
	})
	t.Run("loss, duplicates, disorder", func(t *testing.T) {
		impair(t, backendtest.Faults{Loss: 0.01, Duplicate: 0.01, Reorder: 0.02})
		repeat(t, openUC(t, devA, false), openUC(t, devB, false), size)
	})
	t.Run("over RoCEv2, 1 % loss", func(t *testing.T) {
		impair(t, backendtest.Faults{Loss: 0.01})
		repeat(t, openUC(t, netA, false), openUC(t, netB, false), size)
	})
	t.Run("with userroce", func(t *testing.T) { repeat(t, openUC(t, netB, false), openUserroce(t), size) })
}

// repeat sends a transfer each way and returns how many units were sent again.
func repeat(t *testing.T, a, b backend.Device, size units.Bytes) (again uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	var c [2]*sdr.Endpoint
	var conns [2]*reliability.Conn
	for i, d := range []backend.Device{a, b} {
		var err error
		c[i], err = sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 1})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c[i].Close()) })
		s, err := sr.New(sr.Config{Mode: sr.NACK})
		require.NoError(t, err)
		conns[i], err = reliability.NewConn(c[i], sdr.QPConfig{MTU: 4096, MSL: 50 * units.Millisecond}, reliability.Config{Scheme: s})
		require.NoError(t, err)
	}
	errs := make(chan error, 2)
	for i := range conns {
		go func() { errs <- conns[i].Connect(ctx, conns[1-i].Info()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	transfertest.Bidirectional(ctx, t, c, conns, size)
	for _, x := range conns {
		again += x.Stats().Units.Retransmitted
		require.NoError(t, x.Close())
	}
	return again
}

// TestSourcePorts: each channel has a UDP source port of its own, which the flow label chooses, so that switches spread them; of datagrams
// the port is in the address handle. Who receives is a plain socket.
func TestSourcePorts(t *testing.T) {
	d := openUC(t, netA, false)
	there := netip.AddrPortFrom(d.Addr().Prev(), roce.UDPPort)
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(there))
	require.NoError(t, err)
	defer conn.Close()
	packet := func() (roce.Packet, uint16) {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitLimit)))
		b := make([]byte, 4200)
		n, from, err := conn.ReadFromUDPAddrPort(b)
		require.NoError(t, err)
		flow, err := roce.NewFlow(from, there)
		require.NoError(t, err)
		require.True(t, flow.Seed(n).Verify(b[:n]), "ICRC")
		var p roce.Packet
		require.NoError(t, p.Parse(b[:n]))
		return p, from.Port()
	}
	cq, err := d.NewCQ(backend.CQConfig{Entries: 64, Workers: 1})
	require.NoError(t, err)
	peer := backend.QPInfo{Addr: there.Addr(), Port: roce.UDPPort, QPN: 0x123456, PSN: 7, MTU: 1024}
	for _, channel := range []int{0, 1, 5, 63} {
		q, err := d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: cq, RecvCQ: cq, MTU: 1024, Channel: channel, SendDepth: 4, RecvDepth: 4})
		require.NoError(t, err)
		require.NoError(t, q.Connect(peer))
		_, err = q.PostWrites(d.Now(), []backend.Write{{Imm: uint32(channel), VA: 0x1234, RKey: 0x77}})
		require.NoError(t, err)
		p, port := packet()
		require.EqualValues(t, 0xc001+channel, port)
		require.Equal(t, []uint32{uint32(channel), 0x123456, 0x77, q.Info().PSN}, []uint32{p.Imm, uint32(p.DestQP), p.RKey, uint32(p.PSN)})
	}
	e := newEnd(t, netA, config{Type: verbs.UD})
	require.NoError(t, e.QP.Activate(1, 0x1111, 3))
	const label = 0x2cafe
	ah, err := e.PD.CreateAH(verbs.AHAttr{DGID: verbs.GIDFromAddr(there.Addr()), Port: 1, FlowLabel: label})
	require.NoError(t, err)
	send(t, e, verbs.SendWR{Opcode: verbs.OpSend, Local: e.MR.SGE(0, 100), UD: verbs.UDDest{AH: ah, QPN: 9, QKey: 0x1111}})
	p, port := packet()
	require.EqualValues(t, 0xc000|label&0x3fff^label>>14, port)
	require.Equal(t, roce.UDSendOnly, p.Opcode)
	require.Len(t, p.Payload, 100)
}
