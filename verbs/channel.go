// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/sdr-rdma/go-sdr/verbs/internal/uapi"
)

// CompChannel announces completions of the CQs that were made with it, to goroutines that sleep
// in the netpoller. The order of use: RequestNotify, Poll once more, Wait, Poll.
type CompChannel struct {
	object
	file *eventFile
	fd   int
}

// compEventSize is sizeof(struct ib_uverbs_comp_event_desc).
const compEventSize = 8

// CreateCompChannel makes a completion channel.
func (c *Context) CreateCompChannel() (*CompChannel, error) {
	o, err := c.attach("completion channel")
	if err != nil {
		return nil, err
	}
	var in uapi.CreateCompChannel
	var out uapi.CreateCompChannelResp
	err = write(c, uapi.IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &in, &out)
	var file *eventFile
	if err == nil {
		file, err = newEventFile(int(out.Fd), "completion channel of "+c.info.Name)
	}
	if err != nil {
		o.abandon()
		return nil, wrap("create completion channel", c.info.Name, err)
	}
	ch := &CompChannel{object: o, file: file, fd: int(out.Fd)}
	c.publish(ch)
	return ch, nil
}

// Wait sleeps until one of the channel's CQs announces a completion and returns that CQ. It ends
// with ctx's error when ctx ends, with ErrClosed when the channel is closed, with
// ErrRemoved when the device was removed. A CQ announces once for each RequestNotify.
func (ch *CompChannel) Wait(ctx context.Context) (*CQ, error) {
	var b [compEventSize]byte
	for {
		n, err := ch.file.wait(ctx, b[:], nil)
		if err != nil {
			return nil, ch.wrap(err)
		}
		if cq := ch.cq(b[:n]); cq != nil {
			return cq, nil
		}
	}
}

// Poll returns a CQ that has announced a completion, or nil when there is none.
func (ch *CompChannel) Poll() (*CQ, error) {
	var b [compEventSize]byte
	for {
		n, err := ch.file.poll(b[:])
		if err != nil || n == 0 {
			return nil, ch.wrap(err)
		}
		if cq := ch.cq(b[:n]); cq != nil {
			return cq, nil
		}
	}
}

func (ch *CompChannel) wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return wrap("wait for completion", ch.String(), ch.ctx.judgeEvents(err))
}

// cq finds the CQ of an event; nil when it has been closed since.
func (ch *CompChannel) cq(b []byte) *CQ {
	if len(b) < compEventSize {
		return nil
	}
	cq, _ := ch.ctx.lookup(binary.NativeEndian.Uint64(b)).(*CQ)
	if cq == nil {
		return nil
	}
	if p, ok := cq.part.(*mlx5CQ); ok {
		p.ring.EventFetched()
	}
	return cq
}

// Close closes the channel and ends all waits. Its CQs must be closed before.
func (ch *CompChannel) Close() error {
	return ch.close("close completion channel", func() error {
		ch.file.close()
		return nil
	})
}
