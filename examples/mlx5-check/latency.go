// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/sdr-rdma/go-sdr/verbs"
)

// latencySize is the size of the writes that latency measures, in bytes. They lie in the request itself.
const latencySize = 64

// latency measures how long a small write takes from its posting to its completion: by a doorbell, upon which the adapter reads the
// request from memory, and by BlueFlame, which brings it along.
func latency(w io.Writer, p *pair, c config) error {
	var medians [2]time.Duration
	for i, flame := range []bool{false, true} {
		l, err := newLoop(c.from, p.from.dev.GIDIndex(), p.mtu, flame)
		if err != nil {
			return err
		}
		medians[i], err = l.measure(c.each / 4)
		if err := errors.Join(err, l.ctx.Close(), verbs.FreeBuffer(l.mem)); err != nil {
			return err
		}
	}
	line(w, fmt.Sprintf("write of %d bytes", latencySize), "%v by a doorbell, %v by BlueFlame (medians)", medians[0], medians[1])
	return nil
}

// loop is a queue pair that is connected to itself.
type loop struct {
	ctx *verbs.Context
	mem []byte
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
}

func newLoop(name string, gid int, mtu units.Bytes, flame bool) (*loop, error) {
	ctx, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	l := &loop{ctx: ctx}
	if err := l.connect(gid, mtu, flame); err != nil {
		return nil, errors.Join(err, ctx.Close(), verbs.FreeBuffer(l.mem))
	}
	return l, nil
}

func (l *loop) connect(gid int, mtu units.Bytes, flame bool) error {
	path, err := verbs.MTUFromBytes(int(mtu))
	if err != nil {
		return err
	}
	pd, err := l.ctx.AllocPD()
	if err != nil {
		return err
	}
	if l.mem, err = verbs.AllocBuffer(latencySize); err != nil {
		return err
	}
	if l.mr, err = pd.RegisterMR(l.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	if l.cq, err = l.ctx.CreateCQ(16, nil); err != nil {
		return err
	}
	l.qp, err = pd.CreateQP(verbs.QPInitAttr{Type: verbs.UC, SendCQ: l.cq, RecvCQ: l.cq, BlueFlame: flame,
		Cap: verbs.QPCap{MaxSendWR: 16, MaxInline: latencySize}})
	if err != nil {
		return err
	}
	g, err := l.ctx.QueryGID(1, gid)
	if err != nil {
		return err
	}
	return l.qp.Connect(verbs.ConnectConfig{Access: verbs.AccessRemoteWrite, Path: verbs.AHAttr{DGID: g.GID, SGIDIndex: gid},
		PathMTU: path, RemoteQPN: l.qp.Num()})
}

// measure writes for a while and returns the median time of a write. The last one must have arrived.
func (l *loop) measure(long time.Duration) (time.Duration, error) {
	var times []time.Duration
	data := make([]byte, latencySize)
	wrs := []verbs.SendWR{{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendInline | verbs.SendSignaled, Inline: data, RemoteAddr: l.mr.IOVA(), RKey: l.mr.RKey()}}
	for begin := time.Now(); len(times) == 0 || time.Since(begin) < long; {
		fill(data, byte(len(times)))
		start := time.Now()
		if _, err := l.qp.PostSend(wrs); err != nil {
			return 0, err
		}
		if err := l.completed(start); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
	}
	for start := time.Now(); !bytes.Equal(l.mem, data); {
		if time.Since(start) > unheard {
			return 0, errors.New("the last write didn't arrive")
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// completed polls until the write that began at a time has completed.
func (l *loop) completed(start time.Time) error {
	wcs := make([]verbs.WC, 1)
	for {
		n, err := l.cq.Poll(wcs)
		switch {
		case err != nil:
			return err
		case n == 1 && wcs[0].Status != verbs.WCSuccess:
			return fmt.Errorf("a write ended with %v (%#x)", wcs[0].Status, wcs[0].VendorErr)
		case n == 1:
			return nil
		case time.Since(start) > unheard:
			return errors.New("a write doesn't complete")
		}
	}
}
