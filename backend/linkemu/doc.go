// SPDX-License-Identifier: Apache-2.0

// Package linkemu emulates a bad long-haul link on any device, so that an
// application can be tested against one without leaving the machine.
//
// Wrap a device before giving it to package sdr, on both sides, in one process or
// in two:
//
//	dev, err := userroce.Open(…)
//	emu, err := linkemu.Wrap(dev, linkemu.Config{
//		RTT: 25 * units.Millisecond, Rate: units.Gbit, Drop: 1e-3, Seed: 1,
//	})
//	ep, err := sdr.NewEndpoint(emu, …)
//
// Each side treats what it sends: it delays it by half the RTT, and loses, marks,
// reorders and duplicates it; so does the other side with the other direction.
//
// # How it works
//
// Posted packets wait in the wrapped device, and are passed to the real one when
// they are due, by Poll of the CQ that their QP sends to: there is no goroutine.
// CQ.Next says when, and CQ.Wait wakes up for it. While many packets are under
// way a sleeping worker is woken once for what falls due within 1/32 of the delay
// (50 to 250 µs), so that pacing costs few wake-ups. Packets are late by at most
// that and what the scheduler adds, never early; the rate is exact, since times
// are computed and not slept.
//
// A worker that was kept waiting passes overdue packets on no faster than the
// receiver can take them (Caps.RecvBurst), so that it adds no loss of its own.
//
// A write reads its memory when it is passed on, so KindSent comes only then:
// SendDepth must cover what is in flight (Config.PacketsInFlight), or it limits
// the rate.
//
// # Repeatability
//
// Whether the i-th packet of an end is lost, late or doubled depends on the seed
// alone. The same seed loses the same numbers, so give both sides different ones.
// Time decides, too, what a full Queue and a channel that is down lose, and which
// packets meet a burst where bursts have a length in time (Burst with a rate).
//
// # Damage
//
// A device can't damage packets that another device builds. Corrupter does it on
// the wire of devices that let middleware see it, such as backend/userroce.
//
// # Limits
//
// One Wrap lasts 106 days. Loss is drawn for each packet, not for each byte.
package linkemu
