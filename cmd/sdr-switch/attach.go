// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cilium/ebpf/rlimit"
	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/dataplane/ebpf"
	"github.com/sdr-rdma/go-sdr/units"
)

const attachHelp = `Put a trimmer on an interface of this host or switch, as an XDP program, and
show what it does until an interrupt. Then it is taken off again, and nothing is
left.

It looks at packets that come in through --dev on their way to a slower link:
where they would find more than --queue bytes before them at --rate, data
packets that say so (sdr-perf --trim) are cut to their headers, and all others
but header-only packets are dropped. Its queue is virtual: it polices, and keeps
nothing waiting. Where packets should wait, put HTB on the slower link, with a
burst of 16 KiB or more.

Fragments, IPv4 packets with options and IPv6 packets with extension headers are
never cut, nor are frames with a VLAN tag, unless the interface takes it off and
keeps it beside them (ethtool -k: rx-vlan-offload; ends of veth pairs do, too):
these are cut and have it again when they go on. At the VLAN's own interface,
such as eth1.7, they are cut like others. Packets of containers on this machine
need checksums of their own before they are cut: ethtool -K eth0 tx off, in
there.

At an interface without XDP of its own, such as lo or eth1.7, packets have to
come one by one: those of this machine, ip link set dev lo gso_max_segs 1, and
those for its programs, which an interface underneath may have put together:
ethtool -K eth1 gro off.

It takes Linux 5.9, root or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, and an MTU
that the driver takes with XDP: 1500, or up to about 3500. With --generic it
takes any, and an interface whose driver refuses XDP.`

// An attachment is what attach trim is asked for.
type attachment struct {
	dev string
	ebpf.Config
	every units.Duration
}

func newAttachTrim() *cobra.Command {
	a := &attachment{Config: ebpf.Config{Queue: 64 * units.KiB}, every: units.Second}
	c := &cobra.Command{
		Use: "trim", Short: "A trimmer as an XDP program", Long: attachHelp,
		Example: "  sdr-switch attach trim --dev eth1 --rate 10gbit\n  sdr-switch attach trim --dev eth1 --rate 25gbit --queue 256KiB --keep 256",
		Args:    usage.Args(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&a.dev, "dev", "", "the `interface` at which packets come in")
	f.Var(&a.Rate, "rate", "rate of the link that they go on to, for Ethernet frames without preamble")
	f.Var(&a.Queue, "queue", "bytes of backlog from which on packets are cut or dropped")
	f.Var(&a.Keep, "keep", "bytes that stay of a packet's frame, 61 to 512; of sdr-perf's nobody knows what was cut below 74, with IPv6 94 (default: its headers)")
	f.Var(&a.Overhead, "overhead", "bytes that each frame takes besides: 24 with FCS, preamble and gap")
	f.BoolVar(&a.Generic, "generic", false, "have the kernel run it, not the driver: slower, and with any MTU")
	f.Var((*units.DurationValue)(&a.every), "interval", "how often to show what it does")
	return c
}

func (a *attachment) run(ctx context.Context, out io.Writer) error {
	if a.dev == "" {
		return usage.Errorf("--dev: say at which interface packets come in (ip link lists them)")
	}
	if a.Rate == 0 {
		return usage.Errorf("--rate: say how fast the link is that packets go on to, such as 10gbit")
	}
	if a.every < 10*units.Millisecond {
		return usage.Errorf("--interval %v: choose 10 ms or more", a.every)
	}
	if err := a.Validate(); err != nil {
		return usage.Wrap(err)
	}
	dev, err := netlink.LinkByName(a.dev) // by another name of its own (altname), too, which package net doesn't know
	switch {
	case errors.As(err, new(netlink.LinkNotFoundError)):
		return usage.Errorf("there is no interface %q (ip link lists them)", a.dev)
	case err != nil:
		return fmt.Errorf("look for %s: %w", a.dev, err)
	}
	index := dev.Attrs().Index
	t, err := attach(index, a.Config)
	if err != nil {
		return err
	}
	defer t.Close()
	fmt.Fprintf(out, "trimming what comes in through %s for a link of %v, until an interrupt\n", a.dev, a.Rate)
	if generic(index) {
		usage.Fillf(out, "the kernel runs it for %s, not the driver, so trains of packets of this machine's programs are one to the trimmer, "+
			"and of those that it cuts all but one are lost unseen: ip link set dev DEV gso_max_segs 1, where they are sent. "+
			"So are trains that an interface under %[1]s has put together for this machine's programs: ethtool -K DEV gro off", a.dev)
	}
	tick := time.NewTicker(a.every)
	defer tick.Stop()
	for {
		ended := false
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		if err := a.show(out, t); err != nil {
			return err
		}
		if err := t.Attached(); err != nil {
			return fmt.Errorf("%s: %w", a.dev, err)
		}
		if ended {
			return nil
		}
	}
}

// generic reports whether the kernel runs the program that is on an interface, not its driver.
func generic(index int) bool {
	x, err := netlink.LinkByIndex(index)
	return err == nil && x.Attrs().Xdp != nil && x.Attrs().Xdp.AttachMode == nl.XDP_ATTACHED_SKB
}

// attach is ebpf.Attach, on kernels before 5.11 without the limit of locked memory, of which programs and maps are a part there.
func attach(index int, c ebpf.Config) (*ebpf.Trimmer, error) {
	if err := rlimit.RemoveMemlock(); err != nil && !errors.Is(err, unix.EPERM) { // who may not try whether it is enough
		return nil, err
	}
	return ebpf.Attach(index, c)
}

// show prints the counters.
func (a *attachment) show(out io.Writer, t *ebpf.Trimmer) error {
	m, err := t.Meter()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "data %d, cut %d, header-only %d, acknowledgements %d, other %d, dropped %d; most backlog %v\n",
		m.Data, m.Trimmed, m.HeaderOnly, m.Ack, m.Other, m.Dropped, units.FormatDuration(units.Duration(m.MostBacklog)))
	return err
}
