// SPDX-License-Identifier: Apache-2.0

//go:build !race

package adaptive

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/units"
)

// In the body of a transfer nothing is allocated, neither for what arrives nor for
// what is lost and repeated.
func TestNothingIsAllocatedPerPacket(t *testing.T) {
	const n, batch = 1 << 17, 64
	a, err := New(Config{})
	require.NoError(t, err)
	env := testEnv()
	env.DataLimit = n
	s, err := a.NewSender(testTransfer(n), env)
	require.NoError(t, err)
	info := testTransfer(n)
	info.Params = s.Params()
	r, err := a.NewReceiver(info, env)
	require.NoError(t, err)
	b := &board{has: make([]bool, n)}
	now, count := units.Instant(1e9), 0
	sOut := scheme.Output{Sends: make([]scheme.Send, 0, batch), Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 16)}
	rOut := scheme.Output{Frame: make([]byte, 0, 1024), Jobs: make([]scheme.Job, 0, 16)}
	sent := make([]scheme.Sent, 0, batch)
	round := func() {
		now = now.Add(units.Millisecond)
		sOut.Reset()
		sOut.Budget, sOut.Window = batch, 1<<15
		_, err = s.Poll(now, &sOut)
		sent = sent[:0]
		for _, x := range sOut.Sends {
			c := max(x.Channel, 0)
			if x.Channel < 0 {
				c = x.Unit.Index() / batch % 4
			}
			sent = append(sent, scheme.Sent{Unit: x.Unit, Channel: c})
		}
		s.OnSent(now, sent)
		now = now.Add(units.Millisecond)
		for _, x := range sent {
			if count++; count%50 == 0 {
				continue
			}
			if x.Unit.IsData() {
				b.has[x.Unit.Index()] = true
			}
			m := &b.marks[x.Channel]
			*m = scheme.Mark{Unit: x.Unit, Count: m.Count + 1, Valid: true}
		}
		rOut.Reset()
		_, _, rerr := r.Poll(now, b, &rOut)
		if rerr != nil {
			err = rerr
		}
		if len(rOut.Frame) > 0 {
			if cerr := s.OnControl(now, rOut.Frame); cerr != nil {
				err = cerr
			}
		}
	}
	for range 400 {
		round()
	}
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(400, round))
	require.NoError(t, err)
	require.Positive(t, s.Stats().Retransmitted)
	require.Less(t, s.(*sender).loss.Next(), s.(*sender).groupMap.tail, "still the body")
}
