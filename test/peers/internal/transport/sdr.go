// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// An ours is sdr over user-space RoCEv2 with its defaults, but for the receive
// buffer, and that its workers don't spin: two hosts and the link between them share
// this machine's processors. One packet of 4096 bytes is one repair unit.
type ours struct {
	options  Options
	scheme   string
	dev      *userroce.Device
	ctx      *sdr.Endpoint
	buf      []byte
	mr       *sdr.MR
	conn     *reliability.Conn
	expected []*reliability.Transfer
}

// buffer is what the kernel may keep until the receiver runs, the same as TCP's
// largest and as the windows of the others.
const buffer = 64 * units.MiB

func newSDR(name string, o Options) (_ Endpoint, err error) {
	e := &ours{options: o, scheme: name}
	defer func() {
		if err != nil {
			_ = e.Close()
		}
	}()
	if e.dev, err = userroce.Open(userroce.Config{
		Addr: o.Local, RecvBuffer: buffer, ECN: o.ECN, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		return nil, err
	}
	if e.ctx, err = sdr.NewEndpoint(e.dev, sdr.EndpointConfig{Spin: -1}); err != nil {
		return nil, err
	}
	if e.buf, err = sdr.AllocBuffer(units.Bytes(o.Buffer)); err != nil {
		return nil, err
	}
	e.mr, err = e.ctx.RegisterMemory(e.buf, sdr.AccessRemoteWrite)
	return e, err
}

func (e *ours) Buffer() []byte { return e.buf }

// payload is that of a packet that the link must carry.
const payload = 4 * units.KiB

// Connect makes a Conn that has learnt nothing yet.
func (e *ours) Connect(ctx context.Context) error {
	if err := e.hangUp(); err != nil {
		return err
	}
	s, err := schemes.New(e.scheme, schemes.Params{})
	if err != nil {
		return err
	}
	mtu := e.options.Payload
	if mtu == 0 {
		mtu = payload
	}
	cfg := reliability.Config{Scheme: s, Congestion: congestion.Spec{Name: e.options.Congestion}}
	if e.options.LinkRate != 0 {
		// What the link carries of user data: its packets have headers, too.
		cfg.Rate = units.RateOf(mtu, e.options.LinkRate.Time(mtu+e.dev.Caps().HeaderBytes))
	}
	if e.conn, err = reliability.NewConn(e.ctx, sdr.QPConfig{MTU: mtu}, cfg); err != nil {
		return err
	}
	theirs, err := e.options.Exchange(e.conn.Info())
	if err != nil {
		return err
	}
	return e.conn.Connect(ctx, theirs)
}

func (e *ours) Expect(n int) error {
	t, err := e.conn.StartRecv(e.mr, 0, units.Bytes(n))
	e.expected = append(e.expected, t)
	return err
}

func (e *ours) Receive(ctx context.Context, n int) error {
	t := e.expected[0]
	e.expected = e.expected[1:]
	if err := t.Wait(ctx); err != nil {
		return err
	}
	if got := t.Length(); got != units.Bytes(n) {
		return fmt.Errorf("%d bytes came instead of %d", got, n)
	}
	return nil
}

func (e *ours) Send(ctx context.Context, n int) (time.Duration, error) {
	begun := time.Now()
	t, err := e.conn.StartSend(e.mr, 0, units.Bytes(n), reliability.SendOptions{})
	if err == nil {
		err = t.Wait(ctx)
	}
	return time.Since(begun), err
}

func (e *ours) Version() string { return "this tree" }

func (e *ours) Notes() string {
	if e.conn == nil {
		return ""
	}
	s := e.conn.Stats()
	u := s.Units
	return fmt.Sprintf("rate %v, window %d, RTT %v (least %v); units sent %d, again %d (%d for nothing), parity %d, recovered %d, timeouts %d, fallbacks %d; %s",
		s.Rate, s.Window, s.QP.SRTT, s.QP.MinRTT, u.Sent, u.Retransmitted, u.Spurious, u.Parity, u.Recovered, u.Timeouts, u.Fallbacks, u.Explain)
}

func (e *ours) hangUp() error {
	e.expected = nil
	c := e.conn
	if e.conn = nil; c == nil {
		return nil
	}
	return c.Close()
}

// Close leaves the buffer to the end of the process, which comes soon.
func (e *ours) Close() error {
	err := e.hangUp()
	if e.ctx != nil {
		if e := e.ctx.Close(); err == nil {
			err = e
		}
	}
	if e.dev != nil {
		if e := e.dev.Close(); err == nil {
			err = e
		}
	}
	return err
}
