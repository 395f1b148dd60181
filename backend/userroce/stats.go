// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"sync/atomic"
	"syscall"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/units"
)

// WireStats shows how the device uses the kernel's sockets.
type WireStats struct {
	// SolvedIDs counts packets from IPv4 peers other than userroce whose ICRC was right only with a
	// non-zero IPv4 identification, and which therefore passed a check of 16 bits, not 32.
	SolvedIDs uint64
	// TranslatedSources counts packets accepted because of Config.AllowAnySource only.
	TranslatedSources uint64
	// SendTrains and RecvTrains count system-call messages that carried more than one packet.
	SendTrains, RecvTrains uint64
	// NetworkErrors counts packets that the kernel refused to send (no route, a firewall, the link is
	// down). They count as sent, and to the SDK they are lost, as if the wire had lost them.
	NetworkErrors uint64
	// TooLarge counts packets that no longer fit the interface, whose MTU was lowered. They are
	// lost, too, until the MTU is raised again or the SDK gives up.
	TooLarge uint64
	// SegmentationOffload and ReceiveOffload say whether the kernel's offloads UDP_SEGMENT and UDP_GRO are in use. After the network
	// interface has refused segmentation it is tried again, after a second at first and later more rarely.
	SegmentationOffload, ReceiveOffload bool
	// RecvBuffer is the size of each receive socket's buffer in the kernel's measure.
	RecvBuffer units.Bytes
}

// wireCounters count rare events, so that all goroutines may share them.
type wireCounters struct {
	solved, translated, networkErrors, tooLarge atomic.Uint64
	// refused and refusal are when the kernel refused to send a packet for the last time, and its error.
	refused atomic.Int64
	refusal atomic.Uint32
}

// traffic counts packets. One goroutine at a time writes it, many may read, so a load and a store do.
type traffic struct {
	packets, bytes, trains atomic.Uint64
}

func (t *traffic) add(packets, bytes, trains uint64) {
	t.packets.Store(t.packets.Load() + packets)
	t.bytes.Store(t.bytes.Load() + bytes)
	if trains != 0 {
		t.trains.Store(t.trains.Load() + trains)
	}
}

// noDrop stands for the reason of a packet that isn't dropped.
const noDrop = backend.NumDropReasons

// dropCounters count by reason; any goroutine may count.
type dropCounters [backend.NumDropReasons]atomic.Uint64

func (d *dropCounters) addTo(s *backend.Stats) {
	for i := range d {
		s.Drops[i] += d[i].Load()
	}
}

// Stats is a snapshot of the counters. A worker publishes its own once for each Poll.
func (d *Device) Stats() backend.Stats {
	var s backend.Stats
	d.mu.Lock()
	if !d.closed { // Close has counted the last drops
		for _, r := range d.receivers {
			r.countSocketDrops()
		}
	}
	senders := d.senders
	d.mu.Unlock()
	for _, r := range d.receivers {
		s.PacketsReceived += r.traffic.packets.Load()
		s.BytesReceived += r.traffic.bytes.Load()
		r.drops.addTo(&s)
		r.ecn.addTo(&s.Congestion)
		r.trim.addTo(&s.Trim)
	}
	if errno := d.wire.refusal.Load(); errno != 0 {
		s.Refused, s.RefusedErr = units.Instant(d.wire.refused.Load()), syscall.Errno(errno)
	}
	for _, x := range senders {
		s.PacketsSent += x.traffic.packets.Load()
		s.BytesSent += x.traffic.bytes.Load()
		x.drops.addTo(&s)
	}
	return s
}

// countSocketDrops adds what a socket has dropped since the last call. Device.mu is held.
func (r *receiver) countSocketDrops() {
	n := socketDrops(r.fd)
	r.drops[backend.DropSocketFull].Add(uint64(n - r.socketDrops))
	r.socketDrops = n
}

// WireStats is a snapshot of the counters that only this backend has.
func (d *Device) WireStats() WireStats {
	s := WireStats{
		SolvedIDs:           d.wire.solved.Load(),
		TranslatedSources:   d.wire.translated.Load(),
		NetworkErrors:       d.wire.networkErrors.Load(),
		TooLarge:            d.wire.tooLarge.Load(),
		SegmentationOffload: d.gso.inUse(),
		ReceiveOffload:      d.gro,
		RecvBuffer:          d.receivers[0].granted,
	}
	for _, r := range d.receivers {
		s.RecvTrains += r.traffic.trains.Load()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range d.senders {
		s.SendTrains += x.traffic.trains.Load()
	}
	return s
}

// A warning is a kind of trouble with the network that is worth one line for each errno.
type warning uint8

const (
	warnRefused warning = iota
	warnTooLarge
	warnNoSegmentation
	numWarnings
)

// maxErrno is above all errors of Linux that a socket returns (asm-generic/errno.h).
const maxErrno = 256

var warnings = [numWarnings]string{
	warnRefused:        "the network refuses packets; they count as lost",
	warnTooLarge:       "packets no longer fit the network interface, whose MTU was lowered; they count as lost",
	warnNoSegmentation: "the network interface can't segment UDP, so packets are sent one by one",
}

// warnOnce logs the first occurrence of an error of the network.
func (d *Device) warnOnce(w warning, errno syscall.Errno) {
	if seen := &d.warned[w][errno%maxErrno]; !seen.Load() && !seen.Swap(true) {
		d.log.Warn(warnings[w], "interface", d.iface.name, "err", errno.Error())
	}
}
