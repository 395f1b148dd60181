// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestBlockingBeforeConnect: calls that block last no longer than their context when there is no connection yet.
func TestBlockingBeforeConnect(t *testing.T) {
	dev, err := userroce.Open(userroce.Config{Addr: loopback(0)})
	require.NoError(t, err)
	ep, err := sdr.NewEndpoint(dev, sdr.EndpointConfig{})
	require.NoError(t, err)
	conn, err := reliability.NewConn(ep, sdr.QPConfig{}, reliability.Config{Scheme: newSR(t, sr.RTO)()})
	require.NoError(t, err)
	mr, err := ep.RegisterMemory(make([]byte, units.KiB), sdr.AccessRemoteWrite)
	require.NoError(t, err)
	enough := errors.New("enough")
	for _, c := range []struct {
		name string
		call func(context.Context) error
	}{
		{"Send", func(ctx context.Context) error {
			return conn.Send(ctx, mr, 0, units.KiB, reliability.SendOptions{})
		}},
		{"Recv", func(ctx context.Context) error {
			_, err := conn.Recv(ctx, mr, 0, units.KiB)
			return err
		}},
		{"Wait", func(ctx context.Context) error {
			r, err := conn.StartRecv(mr, 0, units.KiB)
			require.NoError(t, err)
			defer r.Cancel(nil)
			return r.Wait(ctx)
		}},
		{"RecvTo", func(ctx context.Context) error {
			_, err := conn.RecvTo(ctx, nil, nil) // last, because no receive can follow
			return err
		}},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
		done := make(chan error, 1)
		go func() { done <- c.call(ctx) }()
		select {
		case err := <-done:
			require.ErrorIs(t, err, enough, c.name)
		case <-time.After(10 * time.Second):
			require.Fail(t, "it waits past its context", c.name)
		}
	}
	s := conn.Stats()
	require.Zero(t, s.Sends+s.Recvs)
	require.NoError(t, mr.Close(), "nothing uses the memory any more")
	require.NoError(t, conn.Close())
	require.NoError(t, ep.Close())
	require.NoError(t, dev.Close())
}

// TestWithdrawnBeforeConnect: what is given up before the ends have connected keeps its place, and ends the peer's half.
func TestWithdrawnBeforeConnect(t *testing.T) {
	for _, n := range []units.Bytes{0, 1, 100 * units.KiB} {
		p := newPair(t, setup{net: lossy(1e-2), qp: smallQP, scheme: newSR(t, sr.NACK)})
		for i := range p.conn {
			require.NoError(t, p.conn[i].Close())
			var err error
			p.conn[i], err = reliability.NewConn(p.ctx[i], smallQP, reliability.Config{Scheme: newSR(t, sr.NACK)()})
			require.NoError(t, err)
		}
		const length = 128 * units.KiB
		src, gone := p.mr(0, length, 1), p.mr(0, length, 2)
		dst, goneToo := p.mr(1, length, 0), p.mr(1, length, 0)
		start := func(t *reliability.Transfer, err error) *reliability.Transfer {
			require.NoError(p.t, err)
			return t
		}
		enough := errors.New("enough")
		givenUp := []*reliability.Transfer{
			start(p.conn[0].StartSend(gone, 0, n, reliability.SendOptions{})),
			start(p.conn[1].StartRecv(goneToo, 0, length)),
		}
		// One way both halves of the first transfer are given up, and the send of the second; the other way the receive of the first.
		givenUp[1].Cancel(enough)
		givenUp = append(givenUp, start(p.conn[0].StartRecv(gone, 0, length)))
		givenUp[2].Cancel(enough)
		ours := []*reliability.Transfer{start(p.conn[1].StartRecv(dst, 0, length))}
		givenUp = append(givenUp, start(p.conn[0].StartSend(gone, 0, n, reliability.SendOptions{})))
		ours = append(ours, start(p.conn[1].StartRecv(dst, 0, length)))
		givenUp[0].Cancel(enough)
		givenUp[3].Cancel(enough)
		for _, x := range givenUp {
			require.True(t, finished(x))
			require.ErrorIs(t, x.Err(), enough)
		}
		require.NoError(t, gone.Close())
		require.NoError(t, goneToo.Close())
		require.Equal(t, [2]int{0, 2}, [2]int{p.conn[0].Stats().Sends, p.conn[1].Stats().Recvs})
		p.connect()
		s := start(p.conn[0].StartSend(src, 0, n, reliability.SendOptions{}))
		p.until(5*units.Second, func() bool { return finished(s) && finished(ours[0]) && finished(ours[1]) })
		require.ErrorIs(t, ours[0].Err(), sdr.ErrAborted)
		require.NoError(t, ours[1].Err())
		require.NoError(t, s.Err())

		unmet := start(p.conn[1].StartSend(dst, 0, n, reliability.SendOptions{}))
		met := start(p.conn[1].StartSend(dst, 0, n, reliability.SendOptions{}))
		r := start(p.conn[0].StartRecv(src, 0, length))
		p.until(5*units.Second, func() bool { return finished(unmet) && finished(met) && finished(r) })
		require.ErrorIs(t, unmet.Err(), sdr.ErrCompleted)
		require.NoError(t, met.Err())
		require.NoError(t, r.Err())
		for i := range p.conn {
			require.True(t, p.conn[i].Idle())
			require.Zero(t, p.conn[i].Stats().Violations)
			require.Zero(t, p.conn[i].QP().Stats().Control.Violations)
		}
	}
}

// TestWithdrawnReceive: a receive that is given up before it is posted, since the Conn isn't connected or those before it have all slots, ends
// at once, and its sender, whether it has begun or not, in its turn.
func TestWithdrawnReceive(t *testing.T) {
	p := newPair(t, setup{
		net: sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}}, scheme: newSR(t, sr.NACK),
		qp: sdr.QPConfig{MTU: 1024, MaxMessage: 16 * units.KiB, Split: sdr.Split{SlotBits: 2, OffsetBits: 26, FragmentBits: 4}},
	})
	const n = 8 * units.KiB
	for _, length := range []units.Bytes{n, 0} {
		src, dst := p.mr(0, n, 1), p.mr(1, n, 0)
		var recvs, sends []*reliability.Transfer
		for range 12 {
			r, err := p.conn[1].StartRecv(dst, 0, n)
			require.NoError(t, err)
			recvs = append(recvs, r)
		}
		p.run(20 * ms)
		enough := errors.New("enough")
		for _, r := range recvs[4:] {
			r.Cancel(enough)
			require.True(t, finished(r))
		}
		for i := range recvs {
			s, err := p.conn[0].StartSend(src, 0, length, reliability.SendOptions{})
			require.NoError(t, err)
			sends = append(sends, s)
			if i%3 == 0 {
				p.run(20 * ms)
			}
		}
		p.until(5*units.Second, func() bool {
			all := true
			for i := range sends {
				all = all && finished(sends[i]) && finished(recvs[i])
			}
			return all
		})
		for i, s := range sends {
			if i < 4 {
				require.NoError(t, s.Err())
				require.NoError(t, recvs[i].Err())
			} else {
				require.ErrorIs(t, s.Err(), sdr.ErrCompleted)
				require.ErrorIs(t, recvs[i].Err(), enough)
			}
		}
		require.NoError(t, dst.Close())
		p.until(5*units.Second, p.conn[1].Idle)
	}
}
