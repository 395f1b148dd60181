// SPDX-License-Identifier: Apache-2.0

package softroce

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// system makes a sysfs with rxe devices on network interfaces.
func system(t *testing.T, devices map[string]string) verbs.System {
	t.Helper()
	s := verbs.System{Sys: t.TempDir(), Dev: t.TempDir()}
	i := 0
	for name, netdev := range devices {
		uverbs := "uverbs" + string(rune('0'+i))
		i++
		for file, text := range map[string]string{
			"class/infiniband_verbs/" + uverbs + "/ibdev":       name,
			"class/infiniband_verbs/" + uverbs + "/abi_version": "1",
			"class/infiniband/" + name + "/node_type":           "1: CA",
			"class/infiniband/" + name + "/node_guid":           "5054:00ff:fe12:3456",
			"class/infiniband/" + name + "/sys_image_guid":      "5054:00ff:fe12:3456",
			"class/infiniband/" + name + "/parent":              netdev,
			"class/infiniband/" + name + "/ports/1/state":       "4: ACTIVE",
		} {
			path := filepath.Join(s.Sys, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
		}
	}
	return s
}

func TestFind(t *testing.T) {
	two := map[string]string{"rxe0": "eth0", "rxe1": "eth1"}
	for _, c := range []struct {
		name    string
		devices map[string]string
		cfg     Config
		want    string
		err     string
	}{
		{"the only one", map[string]string{"rxe0": "eth0"}, Config{}, "rxe0", ""},
		{"by name", two, Config{Device: "rxe1"}, "rxe1", ""},
		{"by interface", two, Config{Netdev: "eth1"}, "rxe1", ""},
		{"by interface, whatever its name", two, Config{Netdev: "eth1", Device: "other"}, "rxe1", ""},
		{"none", nil, Config{}, "", "modprobe rdma_rxe"},
		{"too many", two, Config{}, "", "choose one of rxe0 on eth0, rxe1 on eth1"},
		{"another name", two, Config{Device: "rxe7"}, "", "named rxe7: there are rxe0 on eth0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.System = system(t, c.devices)
			name, made, err := find(c.cfg)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorIs(t, err, verbs.ErrNoDevice)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, name)
			require.False(t, made)
		})
	}
}

func TestNoSuchInterface(t *testing.T) {
	_, err := Open(Config{Netdev: "no-such-if", System: system(t, nil)})
	require.ErrorContains(t, err, "network interface no-such-if")
}

func TestMTUFixNamesTheInterface(t *testing.T) {
	s := system(t, map[string]string{"rxe0": "eth0"})
	require.Contains(t, mtuFix(Config{MTU: 4096, System: s}, "rxe0"), "ip link set dev eth0 mtu 4176")
}

func TestAddFix(t *testing.T) {
	require.Contains(t, addFix(unix.EPERM), "CAP_NET_ADMIN")
	require.Contains(t, addFix(unix.EINVAL), "modprobe rdma_rxe")
	require.Contains(t, addFix(unix.EEXIST), "another name")
	require.Contains(t, addFix(errors.New("x")), "dmesg")
}
