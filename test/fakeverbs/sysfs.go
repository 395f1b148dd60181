// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	uverbsABI  = 6
	portNumber = 1
)

// writeSysfs writes the device's entries below /sys/class.
func (d *Device) writeSysfs(class string) error {
	uverbs := fmt.Sprintf("uverbs%d", d.index)
	guid := fmt.Sprintf("%04x:%04x:%04x:%04x", d.guid>>48, d.guid>>32&0xffff, d.guid>>16&0xffff, d.guid&0xffff)
	ib, port := "infiniband/"+d.name+"/", "infiniband/"+d.name+"/ports/1/"
	entries := map[string]string{
		"infiniband_verbs/abi_version":                fmt.Sprint(uverbsABI),
		"infiniband_verbs/" + uverbs + "/abi_version": fmt.Sprint(d.driver.identity().abi),
		"infiniband_verbs/" + uverbs + "/ibdev":       d.name,
		"infiniband_verbs/" + uverbs + "/dev":         fmt.Sprintf("%d:%d", uverbsMajor, uverbsMinor+d.index),
		ib + "node_type":                              "1: CA",
		ib + "node_guid":                              guid,
		ib + "sys_image_guid":                         guid,
		port + "state":                                "4: ACTIVE",
		port + "link_layer":                           "Ethernet",
		port + "lid":                                  "0x0",
		port + "rate":                                 "100 Gb/sec (4X EDR)",
		port + "gids/0":                               gidText(d.gid),
		port + "gid_attrs/types/0":                    "RoCE v2",
		port + "pkeys/0":                              "0xffff",
	}
	links := d.driver.sysfs(entries, "infiniband_verbs/"+uverbs+"/", ib)
	for path, text := range entries {
		path = filepath.Join(class, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	for path, to := range links {
		if err := os.Symlink(to, filepath.Join(class, path)); err != nil {
			return err
		}
	}
	return nil
}

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
