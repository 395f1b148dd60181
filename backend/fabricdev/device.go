// SPDX-License-Identifier: Apache-2.0

package fabricdev

import (
	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/internal/virtual"
)

// A Device is on a host of a Network. It implements backend.Device and backend.SizeRegistrar. Marked is
// the number of packets that it has received with a mark of congestion.
type Device struct{ *device }

type device = virtual.Device // embedded by a name that is not exported

var (
	_ backend.Device        = (*Device)(nil)
	_ backend.SizeRegistrar = (*Device)(nil)
)

// ErrVirtual is returned by CQ.Wait: in virtual time there is nothing to wait for; advance the network
// instead.
var ErrVirtual = virtual.ErrVirtual
