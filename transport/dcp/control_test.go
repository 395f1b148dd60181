// SPDX-License-Identifier: Apache-2.0

package dcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/units"
)

// A window of the controller holds both back: a repeat waits for room like anything else.
func TestWindow(t *testing.T) {
	window := units.Bytes(4 * 1024)
	cfg := Config{Congestion: func(congestion.Path) congestion.Controller { return fixedWindow{&window} }}
	req, _ := ends(cfg, 0, 0)
	_, err := req.Post(100)
	require.NoError(t, err)
	var h Header
	send := func() (n int) {
		for {
			if _, _, ok := req.Transmit(0, &h); !ok {
				return n
			}
			n++
		}
	}
	require.Equal(t, 4, send())
	req.OnReturned(0, &Header{PSN: 2})
	require.Equal(t, 1, send(), "the trimmed packet is not under way any more")
	req.OnTimer(req.Next())
	require.Equal(t, 4, send(), "nor is what was sent before a timeout")
	window = 0
	require.Equal(t, 96, send(), "no window, no limit")
	require.EqualValues(t, 100+4+1, req.Sent)
}

// The timer runs from the last sign of life of the oldest message; of others there may be as many as there are.
func TestSignsOfLife(t *testing.T) {
	req, _ := ends(Config{RTO: 1000}, 0, 0)
	for _, n := range []int{2, 5} {
		_, err := req.Post(n)
		require.NoError(t, err)
	}
	var h Header
	for i, at := range []units.Instant{0, 100, 200, 300} {
		_, _, ok := req.Transmit(at, &h)
		require.True(t, ok)
		require.EqualValues(t, 1000+100*min(i, 1), req.Next(), "packet %d", i)
	}
	req.OnReturned(400, &Header{MSN: 1, PSN: 2})
	require.EqualValues(t, 1100, req.Next())
	req.OnReturned(500, &Header{MSN: 0, PSN: 1})
	require.EqualValues(t, 1500, req.Next())
}

// A header that comes back is a notification to DCQCN, which hears nothing else; one of an earlier round or of nothing that was sent is none.
func TestHeaderNotifies(t *testing.T) {
	dcqcn, err := congestion.DCQCN(congestion.DCQCNOfHPCC())
	require.NoError(t, err)
	req, _ := ends(Config{Congestion: dcqcn}, 0, 0)
	_, err = req.Post(10)
	require.NoError(t, err)
	var h Header
	for range 5 {
		_, _, ok := req.Transmit(0, &h)
		require.True(t, ok)
	}
	full, _ := req.cc.Limits(0)
	for _, lie := range []Header{{PSN: 5}, {MSN: 1, PSN: 2}, {PSN: 2, Round: 1}} {
		req.OnReturned(0, &lie)
	}
	now := units.Instant(10 * units.Microsecond)
	rate, _ := req.cc.Limits(now)
	require.Equal(t, full, rate)
	req.OnReturned(now, &Header{PSN: 2})
	rate, _ = req.cc.Limits(now.Add(10 * units.Microsecond))
	require.InDelta(t, float64(full)/2, float64(rate), float64(full)/50)
}

type fixedWindow struct{ w *units.Bytes }

func (fixedWindow) OnSent(units.Instant, units.Bytes, units.Bytes) {}
func (fixedWindow) OnAck(units.Instant, *congestion.Ack)           {}
func (fixedWindow) OnCNP(units.Instant)                            {}
func (fixedWindow) OnLoss(units.Instant, congestion.Loss)          {}
func (c fixedWindow) Limits(units.Instant) (units.Rate, units.Bytes) {
	return 0, *c.w
}
func (fixedWindow) Next() units.Instant { return units.Never }

// The window holds for what is under way of all messages, also when one of them begins a new round or is acknowledged in the midst of one.
func TestWindowAcrossRounds(t *testing.T) {
	window := units.Bytes(8 * 1024)
	cfg := Config{Congestion: func(congestion.Path) congestion.Controller { return fixedWindow{&window} }}
	start := func() (*Requester, func(now units.Instant) int) {
		req, _ := ends(cfg, 0, 0)
		for _, n := range []int{4, 100} {
			_, err := req.Post(n)
			require.NoError(t, err)
		}
		send := func(now units.Instant) (n int) {
			var h Header
			for {
				if _, _, ok := req.Transmit(now, &h); !ok {
					return n
				}
				n++
			}
		}
		require.Equal(t, 8, send(0), "all of the first message, four packets of the second")
		return req, send
	}
	// What has come back is not under way, nor is it when its message begins again, as it does while the window has no room.
	req, send := start()
	for i := range uint32(4) {
		req.OnReturned(0, &Header{PSN: i})
	}
	window = 4 * 1024
	req.OnTimer(req.Next())
	require.EqualValues(t, 1, req.Timeouts)
	window = 8 * 1024
	require.Equal(t, 4, send(req.Next()), "the second message's are still under way")

	// An acknowledgement that is later than the timer is of what was sent before.
	req, send = start()
	now := req.Next()
	req.OnTimer(now)
	require.Equal(t, 1, req.OnAck(now, 1))
	require.Equal(t, 4, send(now))
}

// A pace of less than a packet for each timeout makes none: what may leave when the driver asks next is not awaited yet, whether it is new or has
// come back. The timer runs from the last packet on.
func TestNoTimeoutAtASlowPace(t *testing.T) {
	req, _ := ends(Config{}, 0, 0)
	_, err := req.Post(3)
	require.NoError(t, err)
	var h Header
	var now units.Instant
	send := func() {
		_, _, ok := req.Transmit(now, &h)
		require.True(t, ok)
		require.Zero(t, h.Round)
		for range 3 { // timeouts and more
			now = req.Next()
			req.OnTimer(now)
		}
	}
	send()
	send()
	req.OnReturned(now, &Header{PSN: 0})
	send()
	require.Zero(t, req.Timeouts)
	require.EqualValues(t, 0, req.Repeated)
	_, repeat, ok := req.Transmit(now, &h)
	require.True(t, repeat && ok && h.PSN == 0)
	now = req.Next()
	req.OnTimer(now)
	require.EqualValues(t, 1, req.Timeouts)
}
