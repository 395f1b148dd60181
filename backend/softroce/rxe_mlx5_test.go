// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package softroce_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/internal/wiretest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/test/fakeverbs"
	"github.com/sdr-rdma/go-sdr/units"
)

// insideEnv is set in the program on the fake device: what it does, "wire MTU" or "echo MTU".
const insideEnv = "SDR_SOFTROCE_MLX5"

// TestMLX5 connects the kernel's rxe with a fake mlx5 device whose port is on the network, in a process and a namespace of its own:
// both write into each other's memory, under rxe's key for a message and mlx5's root key, and then transfers go in both directions with the SDK
// over a bad link.
func TestMLX5(t *testing.T) {
	const rxe, fake = "10.9.0.1/24", "10.9.0.2/24"
	for _, mtu := range []units.Bytes{1024, 4096} {
		t.Run(fmt.Sprintf("wire, MTU %d", mtu), func(t *testing.T) {
			link := addVeth(t, "vi0", peerNetdev, 4200)
			t.Setenv(insideEnv, fmt.Sprintf("wire %d", mtu))
			p := startPeer(t, fmt.Sprintf("%s %d mlx5 true", fake, mtu))
			require.NoError(t, addAddr(link, rxe))
			d, err := softroce.Open(softroce.Config{Netdev: "vi0", Addr: netip.MustParsePrefix(rxe).Addr(), MTU: mtu, Logger: quiet()})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, d.Close()) })
			e, err := wiretest.NewEnd(d, mtu)
			require.NoError(t, err)
			other := p.line(t)
			discover(t, link, netip.MustParsePrefix(fake).Addr())
			require.NoError(t, e.Connect(other))
			p.say(t, e.Describe())
			require.Equal(t, "ready", p.line(t))
			require.NoError(t, e.Send())
			require.Equal(t, "received", p.line(t))
			p.say(t, "go")
			require.NoError(t, e.Receive())
		})
	}
	t.Run("transfers", func(t *testing.T) {
		t.Setenv(insideEnv, "echo 4096")
		interopWith(t, "mlx5", rxe, fake, 4096, true)
	})
}

// runMLX5Peer is the machine with the fake device.
func runMLX5Peer(addr string) error {
	h, err := fakeverbs.NewHost(fakeverbs.Port{Name: "mlx5_0", Addr: netip.MustParsePrefix(addr).Addr(), RoCE: true})
	if err != nil {
		return err
	}
	defer h.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), peerEnv+"=")
	p, err := h.Start(cmd)
	if err != nil {
		return err
	}
	err = p.Wait()
	for _, v := range h.Device(0).Stats().Violations {
		err = errors.Join(err, errors.New(v))
	}
	return err
}

// runInsideMLX5 is the program on the fake device.
func runInsideMLX5() error {
	var what string
	var mtu units.Bytes
	if _, err := fmt.Sscan(os.Getenv(insideEnv), &what, &mtu); err != nil {
		return err
	}
	d, err := uc.Open(uc.Config{Device: "mlx5_0", Logger: quiet()})
	if err != nil {
		return err
	}
	defer d.Close()
	if !d.Caps().RootKey {
		return errors.New("the device has no root key")
	}
	in := bufio.NewReader(os.Stdin)
	if what == "wire" {
		return wiretest.Serve(d, mtu, in, os.Stdout, func() error { return nil })
	}
	c, err := sdr.NewEndpoint(d, sdr.EndpointConfig{Workers: 1})
	if err != nil {
		return err
	}
	defer c.Close()
	return echo(c, in, mtu)
}
