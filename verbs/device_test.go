// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tree makes a sysfs with these files; a value that starts with "->" is a symbolic link.
func tree(t *testing.T, files map[string]string) System {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if len(text) > 2 && text[:2] == "->" {
			require.NoError(t, os.Symlink(text[2:], p))
			continue
		}
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
	return System{Sys: root, Dev: filepath.Join(root, "dev")}
}

// with returns a copy of files in which some are changed; "" removes one.
func with(files map[string]string, changes map[string]string) map[string]string {
	all := map[string]string{}
	for k, v := range files {
		all[k] = v
	}
	for k, v := range changes {
		if all[k] = v; v == "" {
			delete(all, k)
		}
	}
	return all
}

var rxeTree = map[string]string{
	"class/infiniband_verbs/abi_version":         "6\n",
	"class/infiniband_verbs/uverbs0/ibdev":       "rxe0\n",
	"class/infiniband_verbs/uverbs0/abi_version": "1\n",
	"class/infiniband/rxe0/node_type":            "1: CA\n",
	"class/infiniband/rxe0/node_guid":            "505a:02ff:fe11:1111\n",
	"class/infiniband/rxe0/sys_image_guid":       "505a:02ff:fe11:1111\n",
	"class/infiniband/rxe0/fw_ver":               "\n",
	"class/infiniband/rxe0/parent":               "eth0\n",
	"class/infiniband/rxe0/ports/1/pkeys/0":      "0xffff\n",
	"class/infiniband/rxe0/ports/1/pkeys/1":      "nonsense\n",
}

var mlx5Tree = map[string]string{
	"class/infiniband_verbs/uverbs1/ibdev":        "mlx5_0\n",
	"class/infiniband_verbs/uverbs1/abi_version":  "1\n",
	"class/infiniband/mlx5_0/node_type":           "1: CA\n",
	"class/infiniband/mlx5_0/node_guid":           "b8ce:f603:0012:3456\n",
	"class/infiniband/mlx5_0/sys_image_guid":      "b8ce:f603:0012:3456\n",
	"class/infiniband/mlx5_0/fw_ver":              "16.35.2000\n",
	"class/infiniband/mlx5_0/ports/1/state":       "4: ACTIVE\n",
	"class/infiniband/mlx5_0/device/driver":       "->../../../bus/pci/drivers/mlx5_core",
	"class/infiniband/mlx5_0/ports/2/gids/ignore": "\n",
}

func TestDevices(t *testing.T) {
	list, err := tree(t, with(rxeTree, mlx5Tree)).Devices()
	require.NoError(t, err)
	guid := GUID{0x50, 0x5a, 0x02, 0xff, 0xfe, 0x11, 0x11, 0x11}
	mlx := GUID{0xb8, 0xce, 0xf6, 0x03, 0x00, 0x12, 0x34, 0x56}
	assert.Equal(t, []DeviceInfo{
		{Name: "mlx5_0", Uverbs: "uverbs1", ABIVersion: 1, NodeType: "1: CA", NodeGUID: mlx, SysImageGUID: mlx,
			Firmware: "16.35.2000", Driver: "mlx5_core", Ports: 2},
		{Name: "rxe0", Uverbs: "uverbs0", ABIVersion: 1, NodeType: "1: CA", NodeGUID: guid, SysImageGUID: guid, Driver: "rxe",
			Netdev: "eth0", Ports: 1},
	}, list)
}

func TestNoRDMAInTheKernel(t *testing.T) {
	s := tree(t, map[string]string{"class/net/lo/mtu": "65536\n"})
	list, err := s.Devices()
	require.NoError(t, err)
	assert.Empty(t, list)
	_, err = s.Open("rxe0")
	assert.ErrorIs(t, err, ErrNoDevice)
	assert.ErrorContains(t, err, "modprobe -a ib_uverbs rdma_rxe")
	s = tree(t, map[string]string{"class/infiniband/rxe0/node_type": "1: CA\n"})
	_, err = s.Open("rxe0")
	assert.ErrorContains(t, err, "load ib_uverbs")
}

// TestMalformedSysfs: one bad device is reported and does not hide the good one.
func TestMalformedSysfs(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]string
		want   string
	}{
		"no ibdev":         {map[string]string{"class/infiniband_verbs/uverbs1/ibdev": ""}, "no such file"},
		"empty ibdev":      {map[string]string{"class/infiniband_verbs/uverbs1/ibdev": "\n"}, "holds no device name"},
		"path in ibdev":    {map[string]string{"class/infiniband_verbs/uverbs1/ibdev": "../../etc\n"}, "holds no device name"},
		"bad version":      {map[string]string{"class/infiniband_verbs/uverbs1/abi_version": "one\n"}, `not a number: "one"`},
		"short GUID":       {map[string]string{"class/infiniband/mlx5_0/node_guid": "b8ce:f603\n"}, "want four groups"},
		"GUID of letters":  {map[string]string{"class/infiniband/mlx5_0/node_guid": "zzzz:zzzz:zzzz:zzzz\n"}, "want four groups"},
		"no device folder": {map[string]string{"class/infiniband_verbs/uverbs1/ibdev": "gone\n"}, "no such file"},
	} {
		list, err := tree(t, with(with(rxeTree, mlx5Tree), c.change)).Devices()
		if assert.ErrorContains(t, err, c.want, name) {
			assert.ErrorContains(t, err, "uverbs1", name)
		}
		if assert.Len(t, list, 1, name) {
			assert.Equal(t, "rxe0", list[0].Name, name)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	s := tree(t, rxeTree)
	_, err := s.Open("rxe9")
	assert.ErrorIs(t, err, ErrNoDevice)
	assert.ErrorContains(t, err, "there are rxe0")

	_, err = s.Open("rxe0")
	assert.ErrorIs(t, err, unix.ENOENT)
	assert.ErrorContains(t, err, "the device file is missing: load ib_uverbs")

	require.NoError(t, os.MkdirAll(s.Dev, 0o755))
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(s.Dev, "uverbs0")))
	_, err = s.Open("rxe0")
	assert.ErrorIs(t, err, unix.ENOTTY)
	assert.ErrorContains(t, err, "the file is no uverbs device")
}

func TestQueryPKey(t *testing.T) {
	s := tree(t, rxeTree)
	v, err := s.QueryPKey("rxe0", 1, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 0xffff, v)
	_, err = s.QueryPKey("rxe0", 1, 1)
	assert.ErrorContains(t, err, "nonsense")
	_, err = s.QueryPKey("rxe0", 1, 2)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestOpenFixes(t *testing.T) {
	assert.Contains(t, openFix(unix.EPERM), "another network namespace")
	assert.Contains(t, openFix(unix.EACCES), "no permission")
	assert.Contains(t, openFix(unix.ENXIO), "removed")
	assert.Contains(t, fix(unix.EIO), "dmesg")
}
