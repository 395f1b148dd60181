// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/dataplane/ebpf"
	"github.com/sdr-rdma/go-sdr/dataplane/softswitch"
	"github.com/sdr-rdma/go-sdr/units"
)

// A kernelSwitch is a bridge of the kernel's, with a trimmer at each port's entry.
type kernelSwitch struct {
	l *lab
	// trimmers[i] decides about what comes in through port i.
	trimmers [2]*ebpf.Trimmer
	// queues: HTB is behind the trimmers.
	queues bool
}

// trimmer is what is before each port of a kernelSwitch.
func (e *experiment) trimmer() ebpf.Config {
	return ebpf.Config{Rate: e.rate, Queue: e.queue, Keep: e.keep}
}

// openKernel makes a bridge of the lab's ports, and puts trimmers before it; with HTB behind them for xdpHTB, whose class of
// header-only packets has a share by weight.
func (e *experiment) openKernel(l *lab, k kind, weight float64) (liveSwitch, error) {
	s := &kernelSwitch{l: l, queues: k == xdpHTB}
	err := l.sw.do(func() error {
		if err := l.bridge(); err != nil {
			return fmt.Errorf("make a bridge: %w", err)
		}
		for i, port := range l.ports {
			if s.queues {
				if err := shape(port, e.rate, weight); err != nil {
					return fmt.Errorf("put HTB on port %d: %w", i, err)
				}
			}
			var err error
			if s.trimmers[i], err = attach(port, e.trimmer()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// bridge joins the switch's ports; it is called in the switch's namespace.
func (l *lab) bridge() error {
	b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge"}}
	if err := netlink.LinkAdd(b); err != nil {
		return err
	}
	for _, index := range l.ports {
		if err := netlink.LinkSetMasterByIndex(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}, b.Index); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(b)
}

// Classes of HTB.
const (
	allClass     = 1
	controlClass = 0x10
	dataClass    = 0x20
)

// shape puts HTB on an interface: a line of a rate, of which header-only packets have as much as their weight says against
// all others, and either takes what the other leaves.
func shape(index int, rate units.Rate, weight float64) error {
	q := netlink.NewHtb(netlink.QdiscAttrs{LinkIndex: index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
	q.Defcls = dataClass
	if err := netlink.QdiscAdd(q); err != nil {
		return err
	}
	for _, c := range []struct {
		parent, minor uint16
		share         float64
	}{{0, allClass, 1}, {allClass, controlClass, weight / (1 + weight)}, {allClass, dataClass, 1 / (1 + weight)}} {
		if err := class(index, c.parent, c.minor, rate, c.share); err != nil {
			return err
		}
	}
	const tag = 3 << 2 << 16 // in the first word of an IPv4 header, the two low bits of the DSCP
	return netlink.FilterAdd(&netlink.U32{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: q.Handle, Priority: 1, Protocol: unix.ETH_P_IP},
		ClassId:     netlink.MakeHandle(1, controlClass),
		Sel:         &netlink.TcU32Sel{Flags: netlink.TC_U32_TERMINAL, Nkeys: 1, Keys: []netlink.TcU32Key{{Mask: tag, Val: tag}}},
	})
}

// late is how late the kernel's timers may be without loss of line: what the classes may then send at once, the burst, is what the line would
// have carried meanwhile. The switch in software catches up with as much.
const late = 5 * units.Millisecond

// class adds a class with a share of a rate that may take all of it. The queue that it comes with is longer than what the
// trimmer before it lets wait.
func class(index int, parent, minor uint16, rate units.Rate, share float64) error {
	const least = 8 * units.Kbit
	burst := max(rate.Bytes(late), 2*softswitch.MaxFrame)
	return netlink.ClassAdd(netlink.NewHtbClass(
		netlink.ClassAttrs{LinkIndex: index, Parent: netlink.MakeHandle(1, parent), Handle: netlink.MakeHandle(1, minor)},
		netlink.HtbClassAttrs{
			Rate: max(uint64(float64(rate)*share), uint64(least)), Ceil: uint64(rate),
			Buffer: uint32(burst), Cbuffer: uint32(burst), Quantum: softswitch.MaxFrame,
		}))
}

func (s *kernelSwitch) stop() (there, back softswitch.Counters, err error) {
	counters := [2]softswitch.Counters{}
	for i := range s.trimmers {
		if counters[i], err = s.count(i); err != nil {
			break
		}
	}
	return counters[0], counters[1], errors.Join(err, s.close())
}

// count reads what came in through port i, and what HTB has dropped of it.
func (s *kernelSwitch) count(i int) (c softswitch.Counters, err error) {
	m, err := s.trimmers[i].Meter()
	if err != nil {
		return c, err
	}
	c = softswitch.Counters{
		Frames:  m.Data + m.Trimmed + m.HeaderOnly + m.Ack + m.Other + m.Dropped,
		Trimmed: m.Trimmed, HeaderOnly: m.HeaderOnly, Dropped: m.Dropped,
	}
	if s.queues {
		var dropped uint64
		err = s.l.sw.do(func() (err error) {
			dropped, err = shaped(s.l.ports[1-i])
			return err
		})
		c.Dropped += dropped
	}
	c.Sent = c.Frames - c.Dropped
	return c, err
}

// shaped is how many packets HTB has dropped at an interface.
func shaped(index int) (uint64, error) {
	qdiscs, err := netlink.QdiscList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}})
	if err != nil {
		return 0, err
	}
	for _, q := range qdiscs {
		if a := q.Attrs(); q.Type() == "htb" && a.Statistics != nil && a.Statistics.Queue != nil {
			return uint64(a.Statistics.Queue.Drops), nil
		}
	}
	return 0, errors.New("HTB says nothing of what it has dropped")
}

func (s *kernelSwitch) close() (err error) {
	for _, t := range s.trimmers {
		if t != nil {
			err = errors.Join(err, t.Close())
		}
	}
	return err
}
