// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/point"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// A result is what a row came to at one size and drop rate.
type result struct {
	plan *plan
	row
	size  units.Bytes
	drop  float64
	until time.Time // no transfer begins after it, but the first
	limit time.Duration
	times []time.Duration
	again []time.Duration // of transfers that were repeated, because they were disturbed
	// disturbed of times are of transfers during which the link was late, or this machine
	// was kept from running.
	disturbed int
	stopped   bool // the last transfer took longer than the limit
	err       error
	version   string
	notes     string
	// to and from are the link's counters, towards the receiver and back.
	to, from link.Counters
	load     string // load average afterwards
}

var (
	senderAddr   = netip.MustParseAddr("10.78.0.1")
	receiverAddr = netip.MustParseAddr("10.78.0.2")
)

// againTime bounds what a cell spends on transfers that are repeated.
const againTime = 4 * time.Second

// measure measures one row on hosts and a link of their own, so that nothing of
// the row before is left on them.
// After the time share it doesn't begin another transfer.
func (p *plan) measure(ctx context.Context, r row, size units.Bytes, drop float64, share time.Duration) *result {
	res := &result{plan: p, row: r, size: size, drop: drop, until: time.Now().Add(share), limit: p.limit}
	if share <= 0 {
		res.limit = max(p.limit/3, time.Second) // what is left is what takes long
	}
	if res.err = transport.Missing(r.transport); res.err != nil {
		return res
	}
	a, err := hosts.New(hosts.Config{Addr: senderAddr, MTU: linkMTU, Sysctls: hosts.Roomy})
	if err != nil {
		res.err = err
		return res
	}
	defer a.Close()
	b, err := hosts.New(hosts.Config{Addr: receiverAddr, MTU: linkMTU, Sysctls: hosts.Roomy})
	if err != nil {
		res.err = err
		return res
	}
	defer b.Close()
	l, err := link.Start(a.TUN(), b.TUN(), link.Config{
		Rate: int64(p.rate()), Delay: p.delay(), Queue: linkQueue, Drop: drop, Seed: p.seed,
	}, link.Priority)
	if err != nil {
		res.err = err
		return res
	}
	res.err = p.transfers(ctx, res, a, b, l)
	res.to, res.from = l.Counters()
	res.load = loadAverage()
	if err := l.Close(); res.err == nil {
		res.err = err
	}
	return res
}

// transfers runs the two processes.
func (p *plan) transfers(ctx context.Context, res *result, a, b *hosts.Host, l *link.Link) error {
	spec := p.spec(res)
	ctx, cancel := context.WithTimeout(ctx, p.longest(&spec, res.reps))
	defer cancel()
	ends, err := hosts.Pipe()
	if err != nil {
		return err
	}
	defer ends[0].Close()
	defer ends[1].Close()
	spec.Side = transport.Receiving
	receiver, err := p.process(ctx, &spec, ends[1])
	if err != nil {
		return err
	}
	if err := b.Start(receiver); err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = receiver.Wait() // killed, unless it was done
	}()
	spec.Side = transport.Sending
	sender, err := p.process(ctx, &spec, ends[0])
	if err != nil {
		return err
	}
	out, err := sender.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := sender.StdinPipe()
	if err != nil {
		return err
	}
	if err := a.Start(sender); err != nil {
		return err
	}
	_ = ends[0].Close() // so that an end that dies is noticed
	_ = ends[1].Close()
	err = res.read(out, in, l)
	if e := sender.Wait(); err == nil && !res.stopped {
		err = e
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// spec is what both processes are told.
func (p *plan) spec(res *result) point.Spec {
	s := point.Spec{
		Transport: res.transport, Sender: senderAddr, Receiver: receiverAddr, MTU: linkMTU,
		Size: int(res.size), Cold: res.cold, Warmups: res.warmups(p), WarmupSize: int(min(res.size, warmupSize)),
		Limit: res.limit, Settle: 2 * p.delay(), Seed: p.seed, ReceiverReady: 4, Favoured: p.nice,
	}
	if res.cold {
		s.Settle *= 4 // there is no transfer before it, in which the receiver can say that it is ready
	}
	if res.size > 16*units.MiB {
		s.ReceiverReady = 2
	}
	if !res.found {
		s.LinkRate = p.rate()
	}
	return s
}

// longest is when something has gone wrong for sure.
func (p *plan) longest(s *point.Spec, reps int) time.Duration {
	return time.Duration(2*reps+s.Warmups+1)*p.limit + time.Minute
}

func (p *plan) process(ctx context.Context, s *point.Spec, turns *os.File) (*exec.Cmd, error) {
	favour := hosts.None
	if p.nice {
		favour = hosts.Nice
	}
	cmd, err := hosts.Command(ctx, s, turns, favour)
	if err == nil && p.verbose {
		cmd.Stderr = os.Stderr
	}
	return cmd, err
}

// read takes the sender's reports and answers them.
func (res *result) read(reports io.Reader, answers io.WriteCloser, l *link.Link) error {
	defer answers.Close()
	late, lost := uint64(0), stolen()
	for d := json.NewDecoder(reports); ; {
		var r point.Report
		if err := d.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch {
		case r.Err != "":
			return errors.New(r.Err)
		case r.Took > 0:
			lateBefore, lostBefore := late, lost
			late, lost = lateOn(l), stolen()
			res.book(r.Took, late > lateBefore || robbed(lost-lostBefore, r.Took))
			if _, err := fmt.Fprintln(answers, res.answer()); err != nil {
				return err
			}
		default:
			res.stopped, res.version, res.notes = r.Stopped, r.Version, r.Notes
		}
	}
}

func lateOn(l *link.Link) uint64 {
	to, from := l.Counters()
	return to.Late + from.Late
}

// book takes a transfer's time, or sets it aside if it was disturbed and there is
// still a chance for a better one.
func (res *result) book(took time.Duration, disturbed bool) {
	spent := time.Duration(0)
	for _, t := range res.again {
		spent += t
	}
	if disturbed && len(res.again) < res.reps && spent < againTime && time.Now().Before(res.until) {
		res.again = append(res.again, took)
		return
	}
	res.times = append(res.times, took)
	if disturbed {
		res.disturbed++
	}
}

func (res *result) answer() string {
	if len(res.times) < res.reps && (len(res.times) == 0 || time.Now().Before(res.until)) {
		return point.More
	}
	return "end"
}

func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	var one, five, fifteen float64
	_, _ = fmt.Sscan(string(b), &one, &five, &fifteen)
	return fmt.Sprintf("%.1f", one)
}
