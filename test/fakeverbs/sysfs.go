// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"
	"os"
	"path/filepath"
)

// What the device says it is: a ConnectX-5. The vendor's number is that of its PCI function in sysfs, its
// OUI in QUERY_DEVICE.
const (
	pciVendor  = 0x15b3
	pciDevice  = 0x1017
	vendorOUI  = 0x02c9
	firmware   = "16.35.1012"
	fwVersion  = 16<<32 | 35<<16 | 1012
	uverbsABI  = 6
	mlx5ABI    = 1
	portNumber = 1
)

// writeSysfs writes the device's entries below /sys/class.
func (d *Device) writeSysfs(class string) error {
	uverbs := fmt.Sprintf("uverbs%d", d.index)
	guid := fmt.Sprintf("%04x:%04x:%04x:%04x", d.guid>>48, d.guid>>32&0xffff, d.guid>>16&0xffff, d.guid&0xffff)
	ib, port := "infiniband/"+d.name+"/", "infiniband/"+d.name+"/ports/1/"
	for path, text := range map[string]string{
		"infiniband_verbs/abi_version":                        fmt.Sprint(uverbsABI),
		"infiniband_verbs/" + uverbs + "/abi_version":         fmt.Sprint(mlx5ABI),
		"infiniband_verbs/" + uverbs + "/ibdev":               d.name,
		"infiniband_verbs/" + uverbs + "/dev":                 fmt.Sprintf("%d:%d", uverbsMajor, uverbsMinor+d.index),
		"infiniband_verbs/" + uverbs + "/device/modalias":     modalias,
		"infiniband_verbs/" + uverbs + "/device/vendor":       fmt.Sprintf("%#04x", pciVendor),
		"infiniband_verbs/" + uverbs + "/device/device":       fmt.Sprintf("%#04x", pciDevice),
		"infiniband_verbs/" + uverbs + "/device/infiniband/x": "",
		ib + "device/modalias":                                modalias,
		ib + "device/vendor":                                  fmt.Sprintf("%#04x", pciVendor),
		ib + "device/device":                                  fmt.Sprintf("%#04x", pciDevice),
		ib + "fw_ver":                                         firmware,
		ib + "node_type":                                      "1: CA",
		ib + "node_guid":                                      guid,
		ib + "sys_image_guid":                                 guid,
		ib + "hca_type":                                       "MT4119",
		port + "state":                                        "4: ACTIVE",
		port + "link_layer":                                   "Ethernet",
		port + "lid":                                          "0x0",
		port + "rate":                                         "100 Gb/sec (4X EDR)",
		port + "gids/0":                                       gidText(d.gid),
		port + "gid_attrs/types/0":                            "RoCE v2",
		port + "pkeys/0":                                      "0xffff",
	} {
		path = filepath.Join(class, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return os.Symlink("../../../bus/pci/drivers/mlx5_core", filepath.Join(class, ib, "device/driver"))
}

// modalias is by what libibverbs finds the driver.
var modalias = fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd00000020bc02sc00i00", pciVendor, pciDevice, pciVendor)

func gidText(g [16]byte) string {
	s := ""
	for i := 0; i < len(g); i += 2 {
		if i > 0 {
			s += ":"
		}
		s += fmt.Sprintf("%02x%02x", g[i], g[i+1])
	}
	return s
}
