// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package verbs_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/sdr-rdma/go-sdr/verbs"
)

func parseGID(s string) (verbs.GID, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return verbs.GID{}, err
	}
	return verbs.GIDFromAddr(a), nil
}

// devinfo reads the fields of ibv_devinfo -v; those of the port follow the device's.
func devinfo(t *testing.T, dev string) map[string]string {
	t.Helper()
	out, err := exec.Command("/usr/bin/ibv_devinfo", "-v", "-d", dev).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	fields := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			fields[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return fields
}

// TestQueriesAgreeWithDevinfo compares our queries with rdma-core's, field by field.
func TestQueriesAgreeWithDevinfo(t *testing.T) {
	got := devinfo(t, devA)
	ctx, err := verbs.Open(devA)
	require.NoError(t, err)
	defer ctx.Close()
	d, err := ctx.QueryDevice()
	require.NoError(t, err)
	p, err := ctx.QueryPort(1)
	require.NoError(t, err)
	first, err := ctx.QueryGID(1, 0)
	require.NoError(t, err)
	num := func(v any) string { return fmt.Sprintf("%d", v) }
	hex := func(v any) string { return fmt.Sprintf("0x%x", v) }
	mtu := func(m verbs.MTU) string { return fmt.Sprintf("%d (%d)", m.Bytes(), m) }
	want := map[string]string{
		"hca_id": devA, "fw_ver": d.FirmwareVersion, "node_guid": d.NodeGUID.String(), "sys_image_guid": d.SysImageGUID.String(),
		"vendor_id": fmt.Sprintf("0x%04x", d.VendorID), "vendor_part_id": num(d.VendorPartID), "hw_ver": hex(d.HWVer),
		"phys_port_cnt": num(d.PhysPorts), "max_mr_size": hex(d.MaxMRSize), "page_size_cap": hex(d.PageSizeCap),
		"max_qp": num(d.MaxQP), "max_qp_wr": num(d.MaxQPWR), "device_cap_flags": fmt.Sprintf("0x%08x", uint32(d.Caps)),
		"max_sge": num(d.MaxSGE), "max_sge_rd": num(d.MaxSGERead), "max_cq": num(d.MaxCQ), "max_cqe": num(d.MaxCQE),
		"max_mr": num(d.MaxMR), "max_pd": num(d.MaxPD), "max_qp_rd_atom": num(d.MaxQPReadAtomic),
		"max_ee_rd_atom": num(d.MaxEEReadAtomic), "max_res_rd_atom": num(d.MaxResReadAtomic),
		"max_qp_init_rd_atom": num(d.MaxQPInitReadAtomic), "max_ee_init_rd_atom": num(d.MaxEEInitAtomic),
		"atomic_cap": fmt.Sprintf("%v (%d)", d.Atomic, d.Atomic), "max_ee": num(d.MaxEE), "max_rdd": num(d.MaxRDD),
		"max_mw": num(d.MaxMW), "max_raw_ipv6_qp": num(d.MaxRawIPv6QP), "max_raw_ethy_qp": num(d.MaxRawEthernetQP),
		"max_mcast_grp": num(d.MaxMcastGroup), "max_mcast_qp_attach": num(d.MaxMcastQPAttach),
		"max_total_mcast_qp_attach": num(d.MaxTotalMcastQPAttach), "max_ah": num(d.MaxAH), "max_fmr": num(d.MaxFMR),
		"max_srq": num(d.MaxSRQ), "max_srq_wr": num(d.MaxSRQWR), "max_srq_sge": num(d.MaxSRQSGE), "max_pkeys": num(d.MaxPKeys),
		"local_ca_ack_delay": num(d.LocalCAAckDelay),
		"state":              fmt.Sprintf("PORT_%v (%d)", p.State, p.State), "max_mtu": mtu(p.MaxMTU), "active_mtu": mtu(p.ActiveMTU),
		"sm_lid": num(p.SMLID), "port_lid": num(p.LID), "port_lmc": fmt.Sprintf("0x%02x", p.LMC),
		"link_layer": p.LinkLayer.String(), "max_msg_sz": hex(p.MaxMessage), "port_cap_flags": fmt.Sprintf("0x%08x", uint32(p.Caps)),
		"port_cap_flags2": fmt.Sprintf("0x%04x", uint16(p.Caps2)), "bad_pkey_cntr": hex(p.BadPKeys), "qkey_viol_cntr": hex(p.QKeyViolations),
		"sm_sl": num(p.SMSL), "pkey_tbl_len": num(p.PKeyTableLen), "gid_tbl_len": num(p.GIDTableLen),
		"subnet_timeout": num(p.SubnetTimeout), "init_type_reply": num(p.InitTypeReply),
		"GID[  0]": first.GID.String() + ", " + first.Type.String(),
	}
	for key, value := range want {
		if _, ok := got[key]; !ok && key == "max_map_per_fmr" {
			continue
		}
		assert.Equal(t, got[key], value, key)
	}
}

func TestGIDTableAndPKeys(t *testing.T) {
	ctx, err := verbs.Open(devA)
	require.NoError(t, err)
	defer ctx.Close()
	table, err := ctx.GIDTable()
	require.NoError(t, err)
	require.NotEmpty(t, table)
	for _, e := range table {
		one, err := ctx.QueryGID(e.Port, e.Index)
		require.NoError(t, err)
		assert.Equal(t, e, one)
		assert.Equal(t, verbs.GIDRoCEv2, e.Type)
		assert.NotZero(t, e.IfIndex)
	}
	assert.True(t, table[0].GID.Addr().IsLinkLocalUnicast(), "%v", table[0].GID)
	pkey, err := ctx.QueryPKey(1, 0)
	require.NoError(t, err)
	assert.EqualValues(t, 0xffff, pkey)

	_, err = ctx.QueryGID(1, 500)
	assert.ErrorContains(t, err, "query GID")
	_, err = ctx.QueryPort(7)
	assert.ErrorContains(t, err, "ports 1 to 1")
	_, err = ctx.QueryPKey(1, 9999)
	assert.Error(t, err)
}

func TestDeviceList(t *testing.T) {
	list, err := verbs.Devices()
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, devA, list[0].Name)
	assert.Equal(t, "rxe", list[0].Driver)
	assert.Equal(t, "veth0", list[0].Netdev)
	assert.Equal(t, 1, list[0].Ports)
	links, err := netlink.RdmaLinkList()
	require.NoError(t, err)
	require.Len(t, links, 2, "netlink knows the same devices as sysfs")
	slices.SortFunc(links, func(x, y *netlink.RdmaLink) int { return strings.Compare(x.Attrs.Name, y.Attrs.Name) })
	backwards := func(g verbs.GUID) string { // as the library prints it
		slices.Reverse(g[:])
		return net.HardwareAddr(g[:]).String()
	}
	for i, l := range links {
		d := list[i]
		assert.Equal(t, netlink.RdmaLinkAttrs{Index: l.Attrs.Index, Name: d.Name, FirmwareVersion: d.Firmware, NodeGuid: backwards(d.NodeGUID),
			SysImageGuid: backwards(d.SysImageGUID), NumPorts: uint32(d.Ports)}, l.Attrs)
	}
	assert.NotEqual(t, links[0].Attrs.Index, links[1].Attrs.Index)
	_, err = verbs.Open("rxe7")
	assert.ErrorIs(t, err, verbs.ErrNoDevice)
	assert.ErrorContains(t, err, "there are rxe0, rxe1")
}
