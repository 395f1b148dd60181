// SPDX-License-Identifier: Apache-2.0

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/sdr-rdma/go-sdr/verbs"
)

// TestNamesOfPorts: states, speeds and widths print under the names that the field has for them, unknown values as numbers.
func TestNamesOfPorts(t *testing.T) {
	for _, tc := range []struct {
		v    any
		want string
	}{
		{verbs.PortActive, "ACTIVE"}, {verbs.PortActiveDefer, "ACTIVE_DEFER"}, {verbs.PortState(6), "PortState(6)"},
		{verbs.PhysLinkUp, "LINK_UP"}, {verbs.PhysTest, "PHY_TEST"}, {verbs.PortPhysState(0), "PortPhysState(0)"},
		{verbs.LinkWidth(1), "1X"}, {verbs.LinkWidth(2), "4X"}, {verbs.LinkWidth(4), "8X"}, {verbs.LinkWidth(8), "12X"}, {verbs.LinkWidth(16), "2X"},
		{verbs.LinkWidth(3), "LinkWidth(3)"}, {verbs.LinkSpeed(32), "EDR"}, {verbs.LinkSpeed(256), "XDR"}, {verbs.LinkSpeed(3), "LinkSpeed(3)"},
		{verbs.PortCaps(1<<16 | 1<<26), "CM|IP_BASED_GIDS"}, {verbs.PortCaps2(1 << 10), "LINK_SPEED_NDR"}, {verbs.OnDemandOps(3), "SEND|RECV"},
		{verbs.PathMigrated, "MIGRATED"}, {verbs.PathArmed, "ARMED"}, {verbs.WCTagMatchErr, "TM error"},
		{verbs.CapFlushGlobal | verbs.CapAtomicWrite, "FLUSH_GLOBAL|ATOMIC_WRITE"}, {verbs.OpFlush, "FLUSH"}, {verbs.OpSendWithInv, "SEND_WITH_INV"},
		{verbs.WCAtomicWrite, "ATOMIC_WRITE"}, {verbs.SendOpcode(11), "SendOpcode(11)"},
	} {
		assert.Equal(t, tc.want, tc.v.(interface{ String() string }).String())
	}
}

func TestRateOfPorts(t *testing.T) {
	for _, tc := range []struct {
		width verbs.LinkWidth
		speed verbs.LinkSpeed
		gbit  float64
	}{{1, 1, 2.5}, {2, 32, 100}, {2, 64, 200}, {2, 128, 400}, {4, 128, 800}, {16, 128, 200}, {2, 3, 0}, {3, 32, 0}} {
		p := verbs.PortAttr{ActiveWidth: tc.width, ActiveSpeed: tc.speed}
		assert.InDelta(t, tc.gbit, p.Rate(), 0, "%v %v", tc.width, tc.speed)
	}
}
