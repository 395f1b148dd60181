// SPDX-License-Identifier: Apache-2.0

// Package rc is a backend.Device on the RC queue pairs of an RDMA device of the kernel: the baseline beside which package uc shows what
// unreliable writes gain. It is what adapters without UC (all but those of mlx4 and mlx5, and rxe) will need when package verbs drives
// them; the devices that it drives now have both.
//
//	dev, err := rc.Open(uc.Config{Device: "rxe0"})
//	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
//
// All but the transport is package uc, and so is what its documentation says of keys, control and limits. This is different:
//
//   - The device repeats what the network loses and keeps the order of each queue pair's writes (Caps.Reliable). No drop
//     is seen, since none is left over; what a loss costs is time, of all that was posted behind it. The scheme that suits is none;
//     others work, and repeat nothing unless an acknowledgement of theirs is late.
//   - A write is sent when the peer has acknowledged it (backend.KindSent): the send queue holds what is in flight, so that
//     a long link needs a deep one.
//   - A write that finds no receive posted waits, with what is behind it, and is tried again after 0.64 ms (RNR).
//   - A connection is lost when the peer doesn't answer for two seconds, in seven tries, or when the peer's device refuses a write: its
//     address isn't open. The queue pair is of no use any more, posts return an error, and package sdr ends its queue pair with
//     that. Nothing connects anew by itself. The peer must be connected within this time, too.
//   - Since a late packet would end the connection, the key of a message is recalled before it dies: the peer
//     is asked, in line with the data, to write through it no more, and what its user posts through it afterwards is dropped there
//     (Stats().Drops, backend.DropLate). Table.Revoked waits for the answer, a round trip; half a second of silence, or five seconds, end the wait. On devices
//     with indirect keys (mlx5) the null key swallows late packets, and nobody is asked. Both sides must be of this package.
//
// Tested on rxe and on the fake mlx5 of test/fakeverbs; no adapter was used.
package rc

import (
	"github.com/sdr-rdma/go-sdr/backend/uc"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// Prefix stands before the name of a device where a name says all: in sdrnet.Config.Device and after sdr-perf's --device, "rc:rxe0" is rxe0
// opened by this package, and "rxe0" is it opened by package uc.
const Prefix = "rc:"

// Open opens a device. What its Config says of the service is not heeded.
func Open(cfg uc.Config) (*uc.Device, error) {
	cfg.Service = verbs.RC
	return uc.Open(cfg)
}
