// SPDX-License-Identifier: Apache-2.0

package strack

import (
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// maxPayload is the largest unit that a core's packet can have.
const maxPayload = 1 << 15

// messageOf is the transfer as a message of the core, in which sizes and the rate are those of the transfer over a power
// of two: larger units than a packet's would not fit. Windows are products of rate and time, so that counts of units don't change.
func messageOf(t *scheme.Transfer, rate units.Rate, base units.Duration) transport.Message {
	shift := 0
	for (t.UnitBytes-1)>>shift >= maxPayload {
		shift++
	}
	part := func(n units.Bytes) units.Bytes { return max((n+1<<shift-1)>>shift, 1) }
	mtu := part(t.UnitBytes)
	return transport.Message{
		Size: units.Bytes(t.Units-1)*mtu + part(t.UnitLen(scheme.Unit(t.Units-1))), MTU: mtu,
		LineRate: max(rate>>shift, 1), BaseRTT: base,
	}
}
