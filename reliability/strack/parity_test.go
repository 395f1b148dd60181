// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine, and much virtual time: nothing for the race detector.

package strack_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// corrupted are the times of n transfers of size bytes, one at a time, over 16 paths of four links that each corrupt one packet
// in a thousand.
func corrupted(t *testing.T, c strack.Config, size units.Bytes, n int) ([]units.Duration, scheme.Stats) {
	const rtt = 2 * ms
	link := sim.Link{Rate: 10 * units.Gbit, Delay: rtt / 2, Loss: sim.Loss{Drop: 1 - math.Pow(1-1e-3, 4)}}
	p := newPair(t, sim.Config{HeaderBytes: 60, MaxMTU: 4096, Link: link, Back: &sim.Link{Delay: rtt / 2}, Seed: 3},
		sdr.QPConfig{MTU: 4096, Channels: 16},
		reliability.Config{Rate: units.RateOf(4096, (10 * units.Gbit).Time(4156)), Congestion: congestion.Spec{Name: "none"}},
		[2]func() scheme.Scheme{makeScheme(c), makeScheme(c)}, nil)
	src, from := p.register(0, size, 1)
	dst, to := p.register(1, size, 0)
	var times []units.Duration
	next, err := p.conn[1].StartRecv(to, 0, size)
	require.NoError(t, err)
	for range n {
		clear(dst)
		r := next
		if next, err = p.conn[1].StartRecv(to, 0, size); err != nil { // posted ahead, so that there is a grant
			require.NoError(t, err)
		}
		ready := p.net.Now().Add(2 * rtt)
		p.until(units.Second, func() bool { return p.net.Now() >= ready })
		begun := p.net.Now()
		s, err := p.conn[0].StartSend(from, 0, size, reliability.SendOptions{})
		require.NoError(t, err)
		p.ended(10*units.Second, s, r)
		require.Equal(t, src, dst, "content")
		times = append(times, p.net.Now().Sub(begun))
	}
	slices.Sort(times)
	st := p.conn[0].Stats().Units
	st.Recovered = p.conn[1].Stats().Units.Recovered
	return times, st
}

// Where links corrupt packets, and a probe or the timeout decides when a short message is whole, parity takes the 99th percentile
// to at most 0.8 of that.
func TestParityOfShortMessages(t *testing.T) {
	const n = 600
	for _, size := range []units.Bytes{16 * units.KiB, 64 * units.KiB, 128 * units.KiB} {
		bare, _ := corrupted(t, strack.Config{}, size, n)
		coded, st := corrupted(t, strack.Config{Parity: true}, size, n)
		at := func(times []units.Duration, percent int) units.Duration { return times[len(times)*percent/100-1] }
		ratio := float64(at(coded, 99)) / float64(at(bare, 99))
		t.Logf("%v: p50 %v and %v, p99 %v and %v with parity: %.2f; of %d units %d parity, %d computed, %d sent again", size,
			at(bare, 50), at(coded, 50), at(bare, 99), at(coded, 99), ratio, st.Sent, st.Parity, st.Recovered, st.Retransmitted)
		require.NotZero(t, st.Recovered)
		require.LessOrEqual(t, ratio, 0.8)
		require.Less(t, st.Retransmitted, uint64(n/100), "with parity for what is lost, not for half of it")
	}
}

// Long messages get no parity, so that the two schemes do the same, with a quarter of the paths dead and packets corrupted.
func TestParityOfLongMessages(t *testing.T) {
	bare, _ := corrupted(t, strack.Config{}, 4*units.MiB, 3)
	coded, st := corrupted(t, strack.Config{Parity: true}, 4*units.MiB, 3)
	require.Equal(t, bare, coded)
	require.Zero(t, st.Parity)
}

// A long message, which may have no parity, says nothing of how much the short ones that follow it want.
func TestLongMessagesLeaveRoomForParity(t *testing.T) {
	s := makeScheme(strack.Config{Parity: true})()
	env := scheme.Env{Channels: 4, RTT: ms, MinRTT: ms, Rate: 10 * units.Gbit, MaxFrame: 1024}
	receive := func(n int, parity byte) {
		info := scheme.Transfer{Length: units.Bytes(n) * 4096, UnitBytes: 4096, Units: n}
		sender, err := s.NewSender(info, &env)
		require.NoError(t, err)
		info.Params = sender.Params()
		info.Params[len(info.Params)-1] = parity
		_, err = s.NewReceiver(info, &env)
		require.NoError(t, err)
	}
	receive(16, 3)
	receive(1000, 0)
	require.Equal(t, 3, s.ParityUnits(16))
	receive(16, 0)
	require.Zero(t, s.ParityUnits(16))
}
