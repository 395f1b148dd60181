// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
)

// MTUs of links: the least of IPv6, and what carries 4 KiB of an sdr packet.
const (
	leastMTU = 1280
	mostMTU  = 4200
)

// Addresses: flow i is sent from …10+i to …110+i.
func senderOf(i int) netip.Addr   { return netip.AddrFrom4([4]byte{10, 79, 0, byte(10 + i)}) }
func receiverOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 79, 0, byte(110 + i)}) }

// An outcome is what a scene came to.
type outcome struct {
	records [][]link.Record // by flow and link.Bin
	told    []told
	// to and from are the link's counters, towards the receivers and back.
	to, from link.Counters
	// senders, receivers and link are how many processors they kept busy.
	senders, receivers, link float64
}

// play runs a scene on hosts and a link of its own.
func (p *plan) play(ctx context.Context, s *scene) (*outcome, error) {
	a, err := p.host(s, senderOf)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	b, err := p.host(s, receiverOf)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	runtime.GC()
	config := s.link
	config.Seed = p.seed
	for i, f := range s.flows {
		config.Flows = append(config.Flows, link.Flow{Addr: senderOf(i), Delay: f.RTT / 2})
	}
	l, err := link.Start(a.TUN(), b.TUN(), config, link.Priority)
	if err != nil {
		return nil, err
	}
	out, err := p.flows(ctx, s, a, b, l)
	closed := l.Close()
	if err = errors.Join(err, closed); err != nil {
		return nil, err
	}
	out.records = l.Records()
	out.to, out.from = l.Counters()
	return out, nil
}

func (p *plan) host(s *scene, address func(int) netip.Addr) (*hosts.Host, error) {
	c := hosts.Config{Addr: address(0), MTU: int(p.mtu), Sysctls: hosts.Roomy}
	for i := 1; i < len(s.flows); i++ {
		c.More = append(c.More, address(i))
	}
	return hosts.New(c)
}

// A side is a process that is one side of all flows.
type side struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err strings.Builder
}

// flows runs both processes for as long as the scene takes.
func (p *plan) flows(ctx context.Context, s *scene, a, b *hosts.Host, l *link.Link) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.length+setUp+20*time.Second)
	defer cancel()
	ends, err := hosts.Pipe()
	if err != nil {
		return nil, err
	}
	defer ends[0].Close()
	defer ends[1].Close()
	receiver, err := p.start(ctx, s, transport.Receiving, b, ends[1])
	if err != nil {
		return nil, err
	}
	defer receiver.end()
	sender, err := p.start(ctx, s, transport.Sending, a, ends[0])
	if err != nil {
		return nil, err
	}
	defer sender.end()
	_ = ends[0].Close() // so that an end that dies is noticed
	_ = ends[1].Close()
	for _, x := range []*side{receiver, sender} {
		if line, err := x.out.ReadString('\n'); err != nil || line != ready+"\n" {
			return nil, x.failed(err)
		}
	}
	busy := processorTime()
	l.Begin()
	if _, err := fmt.Fprintln(sender.in, "go"); err != nil {
		return nil, sender.failed(err)
	}
	select {
	case <-time.After(s.length):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	busy = processorTime() - busy
	out := &outcome{link: float64(busy) / float64(s.length)}
	_ = sender.in.Close()
	if err := json.NewDecoder(sender.out).Decode(&out.told); err != nil {
		return nil, sender.failed(err)
	}
	out.senders, out.receivers = sender.end()/s.length.Seconds(), receiver.end()/s.length.Seconds()
	return out, nil
}

func (p *plan) start(ctx context.Context, s *scene, which transport.Side, h *hosts.Host, turns *os.File) (*side, error) {
	favour := hosts.None
	if p.realTime {
		favour = hosts.RealTime
	}
	cmd, err := hosts.Command(ctx, spec{Side: which, MTU: int(p.mtu), Flows: s.addressed()}, turns, favour)
	if err != nil {
		return nil, err
	}
	x := &side{cmd: cmd}
	cmd.Stderr = &x.err
	if x.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	x.out = bufio.NewReader(out)
	return x, h.Start(cmd)
}

// end ends the process, if it hasn't ended, and returns the seconds of processor time that it took.
func (x *side) end() float64 {
	if x.cmd.ProcessState == nil {
		_ = x.in.Close()
		_ = x.cmd.Cancel()
		_ = x.cmd.Wait() // its standard error is known when it matters
	}
	return (x.cmd.ProcessState.UserTime() + x.cmd.ProcessState.SystemTime()).Seconds()
}

// failed ends the process and says why it didn't do what it should.
func (x *side) failed(err error) error {
	x.end()
	if text := strings.TrimSpace(x.err.String()); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("a process ended early: %w", err)
}

// processorTime is this process's: the link's.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
