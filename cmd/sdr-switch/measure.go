// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sdr-rdma/go-sdr/internal/result"
	"github.com/sdr-rdma/go-sdr/roce"
)

// header is what a packet has beside its payload in an Ethernet frame, and cut what is left of one.
const (
	header = 14 + roce.IPv4WriteImmOverhead
	cut    = 14 + roce.IPv4HeaderSize + roce.UDPHeaderSize + roce.TrimmedSize
)

// measure runs sdr-perf through one switch.
func (e *experiment) measure(ctx context.Context, k kind, congestion string, log io.Writer) (row, error) {
	l, err := newLab(int(e.mtu) + 200)
	if err != nil {
		return row{}, e.denied(err)
	}
	defer l.close()
	sw, err := e.open(l, k)
	if err != nil {
		return row{}, e.denied(err)
	}
	begun := time.Now()
	r, err := e.perfThrough(ctx, l, k, congestion, log)
	took := time.Since(begun)
	there, back, stopped := sw.stop()
	if err == nil {
		err = stopped
	}
	if err != nil {
		return row{}, err
	}
	x := row{Kind: k, Congestion: congestion, Trim: k != drop, Switch: there, Perf: r, PacketRate: float64(there.Frames+back.Frames) / took.Seconds()}
	x.GoodputBps = 8e9 * arrived(&r) / float64(max(r.ElapsedNs, 1))
	if e.rate > 0 {
		// Of each packet that arrived the line has carried what was cut of it before, too.
		each := float64(max(e.keep, cut))
		headers := float64(r.Packets.TrimmedSeen)*each - float64(there.Joined)*(cut-roce.NameSize)
		packets := max(arrived(&r), 1) / float64(e.mtu)
		most := float64(e.rate) * float64(e.mtu) / (float64(e.mtu+header) + headers/packets)
		x.OfLine = x.GoodputBps / most
	}
	return x, nil
}

// arrived is how many bytes of user data did, less than were sent only with a scheme that repeats nothing.
func arrived(r *result.Result) float64 {
	return max(0, float64(r.SizeBytes)*float64(r.Iterations)-float64(r.Chunks.Missing)*float64(r.Chunks.UnitBytes))
}

// perfThrough runs both ends of sdr-perf, and returns the client's result.
func (e *experiment) perfThrough(ctx context.Context, l *lab, k kind, congestion string, log io.Writer) (r result.Result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, server := l.hosts[0], l.hosts[1]
	both := slices.Clip([]string{"--trim", "--spin", "0"}) // the ends share processors with the switch, and who polls takes its own
	s := server.command(ctx, e.perf, append(both, "--addr", server.addr.String())...)
	var said bytes.Buffer
	s.Stdout, s.Stderr = &said, &said
	if err := server.start(s); err != nil {
		return r, fmt.Errorf("start %s: %w", e.perf, err)
	}
	stop := sync.OnceFunc(func() {
		cancel()
		_ = s.Wait()
	})
	defer stop()
	args := append(both,
		"--trim-path="+strconv.FormatBool(k != drop), "--addr", client.addr.String(), "-s", strconv.FormatInt(int64(e.size), 10), "-n", strconv.Itoa(e.iters),
		"-m", strconv.FormatInt(int64(e.mtu), 10), "--reliability", e.scheme, "--congestion", e.controller(congestion), "--json", "-", server.addr.String(),
	)
	if congestion == "fixed" {
		args = append([]string{"--warmup", "0"}, args...) // nothing is learnt, and so all is counted at both ends
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		c := client.command(ctx, e.perf, args...)
		var out, problems bytes.Buffer
		c.Stdout, c.Stderr = &out, &problems
		if err := client.start(c); err != nil {
			return r, fmt.Errorf("start %s: %w", e.perf, err)
		}
		err := c.Wait()
		if err == nil {
			if r, err = last(out.Bytes()); err != nil {
				return r, fmt.Errorf("read what sdr-perf says: %w", err)
			}
			return r, nil
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if !strings.Contains(problems.String(), "refused") || time.Now().After(deadline) {
			stop() // said is whole then
			for _, b := range []*bytes.Buffer{&problems, &said} {
				if b.Len() > 0 {
					fmt.Fprintln(log, strings.TrimSpace(b.String()))
				}
			}
			return r, fmt.Errorf("sdr-perf: %w", err)
		}
	}
}

// controller is what sdr-perf is told.
func (e *experiment) controller(congestion string) string {
	switch {
	case congestion != "fixed":
		return congestion
	case e.rate > 0 && e.offered > 0:
		wire := e.offered * float64(e.rate)
		return fmt.Sprintf("fixed:rate=%dkbit", int64(wire*float64(e.mtu)/float64(e.mtu+header)/1000))
	}
	return "none"
}

// last reads the last result of sdr-perf's JSON.
func last(b []byte) (r result.Result, err error) {
	var all []result.Result
	if err := json.Unmarshal(b, &all); err != nil {
		return r, err
	}
	if len(all) != 1 {
		return r, fmt.Errorf("%d results", len(all))
	}
	return all[0], nil
}
