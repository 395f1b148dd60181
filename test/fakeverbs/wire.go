// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package fakeverbs

// wire connects the devices of a host. It loses nothing and keeps the order.
type wire struct{}

// find finds the QP behind an address.
func (h *Host) find(gid [16]byte, qpn uint32) *queuePair {
	for _, d := range h.devices {
		if d.gid == gid {
			return d.qps[qpn]
		}
	}
	return nil
}

// send brings a message of q to peer, nil when there is none.
func (*wire) send(q, peer *queuePair, m *message) verdict {
	if peer == nil || peer.kind != q.kind || peer.kind != qptUD && peer.destQPN() != q.number {
		return unreachable
	}
	return peer.ctx.device.deliver(peer, m)
}
