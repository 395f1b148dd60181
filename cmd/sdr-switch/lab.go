// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A lab is two hosts and a switch between them: network namespaces without names, joined by veth pairs, which end with the
// process or with close.
type lab struct {
	sw    *netns
	hosts [2]*host
	// ports are the indices of the switch's interfaces, in the order of hosts.
	ports [2]int
}

// A host is at one end of the switch.
type host struct {
	ns   *netns
	addr netip.Addr
	link string
}

// A netns is a network namespace.
type netns struct{ file *os.File }

// newNetns makes a network namespace.
func newNetns() (*netns, error) {
	n := new(netns)
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("make a network namespace: %w: there are as many as there may be: sysctl user.max_net_namespaces", err)
		} else if err != nil {
			return fmt.Errorf("make a network namespace (it takes root, or user namespaces that users may make): %w", err)
		}
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return n, err
}

// do calls f in the namespace: sockets that it opens and programs that it starts are there.
func (n *netns) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// onThread calls f on a thread of its own, which ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// newLab makes a lab whose cables carry IP packets of mtu bytes.
func newLab(mtu int) (l *lab, err error) {
	l = new(lab)
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.sw, err = newNetns(); err != nil {
		return l, err
	}
	for i := range l.hosts {
		h := &host{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), link: "host"} // TEST-NET-1 of RFC 5737
		l.hosts[i] = h
		if h.ns, err = newNetns(); err != nil {
			return l, err
		}
		if l.ports[i], err = h.connect(l.sw, fmt.Sprintf("port%d", i), mtu); err != nil {
			return l, fmt.Errorf("connect host %d: %w", i, err)
		}
	}
	for i, h := range l.hosts {
		if err = errors.Join(h.ns.awaitLink(h.link), l.sw.awaitLink(fmt.Sprintf("port%d", i))); err != nil {
			return l, fmt.Errorf("connect host %d: %w", i, err)
		}
	}
	return l, nil
}

// awaitLink waits until a link that has been set up is: the kernel does the rest of it later (linkwatch_event), and until then drops what is
// sent without a word.
func (n *netns) awaitLink(name string) error {
	return n.do(func() error {
		for begun := time.Now(); ; time.Sleep(time.Millisecond) {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if link.Attrs().OperState == netlink.OperUp {
				return nil
			}
			if time.Since(begun) > linkPatience {
				return fmt.Errorf("link %s is %v after %v", name, link.Attrs().OperState, linkPatience)
			}
		}
	})
}

// linkPatience is how long a link may take to be up on a machine with much else to do.
const linkPatience = 30 * time.Second

// connect makes a cable from h to the switch, and returns the index of its other end.
func (h *host) connect(sw *netns, port string, mtu int) (index int, err error) {
	err = h.ns.do(func() error {
		err := netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: h.link, MTU: mtu}, PeerName: port, PeerMTU: uint32(mtu), PeerNamespace: netlink.NsFd(sw.file.Fd()),
		})
		if err != nil {
			return fmt.Errorf("make a veth pair: %w", err)
		}
		link, err := netlink.LinkByName(h.link)
		if err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr(h.addr.String() + "/24")
		if err != nil {
			return err
		}
		// A switch has packets, not what offloads make of them.
		return errors.Join(
			netlink.LinkSetGSOMaxSegs(link, 1), netlink.AddrAdd(link, addr), netlink.LinkSetUp(lo), netlink.LinkSetUp(link),
		)
	})
	if err != nil {
		return 0, err
	}
	err = sw.do(func() error {
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		index = link.Attrs().Index
		return netlink.LinkSetUp(link)
	})
	return index, err
}

// A program runs at a host.
type program struct {
	*exec.Cmd
	// ended is closed when it has been waited for.
	ended chan struct{}
}

// command prepares a program that will run at a host; start it with start.
func (h *host) command(ctx context.Context, name string, args ...string) *program {
	p := &program{Cmd: exec.CommandContext(ctx, name, args...), ended: make(chan struct{})}
	p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return p
}

// start starts a program at the host. It ends with this one, however that ends. For the kernel its parent is the thread that starts it
// (PR_SET_PDEATHSIG), which therefore stays until Wait.
func (h *host) start(p *program) error {
	started := make(chan error, 1)
	go func() {
		started <- h.ns.do(func() error {
			if err := p.Start(); err != nil {
				return err
			}
			started <- nil
			<-p.ended
			return nil
		})
	}()
	return <-started
}

// Wait waits for the program's end. Call it once.
func (p *program) Wait() error {
	defer close(p.ended)
	return p.Cmd.Wait()
}

func (l *lab) close() {
	for _, h := range l.hosts {
		if h != nil && h.ns != nil && h.ns.file != nil {
			h.ns.file.Close()
		}
	}
	if l.sw != nil && l.sw.file != nil {
		l.sw.file.Close()
	}
}
