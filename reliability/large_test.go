// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestThreeGiB moves 3 GiB, in sizes only, through messages of 4 MiB, so that
// slots and generations wrap around.
func TestThreeGiB(t *testing.T) {
	qp := sdr.QPConfig{MTU: 64 * units.KiB, MaxMessage: 4 * units.MiB, Split: sdr.Split{SlotBits: 6, OffsetBits: 22, FragmentBits: 4}}
	net := sim.Config{Rate: 100 * units.Gbit, Seed: 5, Link: sim.Link{Delay: 2 * ms, Loss: sim.Loss{Drop: 1e-3}}}
	p := newPair(t, setup{net: net, qp: qp, conn: reliability.Config{Rate: 99 * units.Gbit, Window: 32}, scheme: newSR(t, sr.NACK)})
	const n = 3*units.GiB + 12345
	src, err := p.ctx[0].RegisterSize(n, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	dst, err := p.ctx[1].RegisterSize(n, sdr.AccessRemoteWrite)
	require.NoError(t, err)
	r, err := p.conn[1].StartRecv(dst, 0, n)
	require.NoError(t, err)
	s, err := p.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
	require.NoError(t, err)
	before := p.net.Now()
	p.until(10*units.Second, func() bool { return finished(r) && finished(s) })
	require.NoError(t, s.Err())
	require.Equal(t, n, r.Length())
	ideal := (100 * units.Gbit).Time(n) + 4*ms
	require.Less(t, p.net.Now().Sub(before), ideal*12/10)
}

// TestLossIsProvedBeyondTheMarksCount moves more packets on one channel than the count of
// a mark, and that of a message, has numbers for: losses at the end must be proved by marks,
// as those at the beginning are, not wait for timers.
func TestLossIsProvedBeyondTheMarksCount(t *testing.T) {
	for _, mtu := range []units.Bytes{1024, 4096} {
		const rtt, rate, packets = 10 * ms, 10 * units.Gbit, 1<<18 + 1<<17
		n := packets * mtu
		p := newPair(t, setup{
			net:    sim.Config{Rate: rate, Seed: 5, Link: sim.Link{Delay: rtt / 2, Loss: sim.Loss{Drop: 1e-2}}},
			qp:     sdr.QPConfig{MTU: mtu, Channels: 1},
			conn:   reliability.Config{Rate: rate},
			scheme: newSR(t, sr.NACK),
		})
		ideal := rate.Time(n) + rtt
		took := p.timed(n)
		require.Less(t, took, ideal*12/10, "MTU %d: %.2f of the ideal", mtu, float64(took)/float64(ideal))
		s := p.conn[0].Stats().Units
		require.Less(t, s.Timeouts, uint64(10), "MTU %d: %d of %d units repeated", mtu, s.Retransmitted, s.Sent)
	}
}

// TestPathDiesLongAgo: of a path that carries nothing any more the last mark stays that of the message that it was of, also when more
// messages have followed than a mark tells apart. As one of a message to come it would be what no unit that was sent explains, and end the transfer.
func TestPathDiesLongAgo(t *testing.T) {
	const mtu, messages = 256, 1<<14 + 1<<10
	p := newPair(t, setup{
		net:    sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms / 10}},
		qp:     sdr.QPConfig{MTU: mtu},
		conn:   reliability.Config{Rate: units.Gbit, MessageSize: mtu},
		scheme: newSR(t, sr.NACK),
	})
	dies := p.net.Now().Add(51 * ms) // timed waits for 50 ms first
	p.net.SetFilter(func(i sim.PacketInfo) sim.Verdict {
		if i.Kind == backend.KindWrite && i.Channel == 1 && p.net.Now() > dies {
			return sim.Drop
		}
		return sim.Deliver
	})
	p.timed(messages * mtu)
}

// TestParityOfLargeTransfers: without a word about memory, parity is there for transfers of
// which more is coded than a round of slots carries, and for a round trip of 400 Gbit/s.
func TestParityOfLargeTransfers(t *testing.T) {
	p := newPair(t, setup{
		net:    sim.Config{Rate: 100 * units.Gbit, Seed: 5, Link: sim.Link{Delay: 5 * ms}},
		qp:     sdr.QPConfig{MTU: 4096},
		conn:   reliability.Config{Rate: 100 * units.Gbit},
		scheme: newEC(t, scheme.MDS, 32, 8),
	})
	const n = 1100 * units.MiB
	p.timed(n)
	s := p.conn[0].Stats().Units
	require.Equal(t, n/4096/4, units.Bytes(s.Parity), "a quarter of the data: %s", s.Explain)
	require.Empty(t, s.Explain)

	p = newPair(t, setup{
		net:    sim.Config{Rate: 400 * units.Gbit, Seed: 5, Link: sim.Link{Delay: 12500 * units.Microsecond, Loss: sim.Loss{Drop: 1e-2}}},
		qp:     sdr.QPConfig{MTU: 64 * units.KiB},
		conn:   reliability.Config{Rate: 400 * units.Gbit},
		scheme: allSchemes(t)["adaptive"],
	})
	p.timed(units.GiB) // learns the drop rate
	ideal := (400 * units.Gbit).Time(units.GiB) + 25*ms
	require.Less(t, p.timed(units.GiB), ideal*11/10)
}

// TestSmallPoolIsSaid: a scheme that had to do with less room for parity than it wanted
// says so, and where to give it more.
func TestSmallPoolIsSaid(t *testing.T) {
	for _, name := range []string{"ec-xor", "ec-mds", "adaptive"} {
		p := newPair(t, setup{
			net:    sim.Config{Rate: units.Gbit, Seed: 5, Link: sim.Link{Delay: 40 * ms}},
			qp:     sdr.QPConfig{MTU: 4096},
			conn:   reliability.Config{Rate: units.Gbit, ParityPool: 256 * units.KiB},
			scheme: allSchemes(t)[name],
		})
		p.timed(32 * units.MiB)
		require.Contains(t, p.conn[0].Stats().Units.Explain, "ParityPool", name)
	}
}

// Where packets are shorter than the IBTA's shortest, which only devices of simulations have, schemes still have room for what they say.
func TestTinyMTU(t *testing.T) {
	for name, newScheme := range allSchemes(t) {
		for _, mtu := range []units.Bytes{1, 64, 128} {
			p := newPair(t, setup{
				net: sim.Config{Rate: units.Gbit, Link: sim.Link{Delay: ms}}, qp: sdr.QPConfig{MTU: mtu},
				conn: reliability.Config{Rate: units.Gbit}, scheme: newScheme,
			})
			n := 100 * mtu
			src, dst := p.mr(0, n, 1), p.mr(1, n, 0)
			r, err := p.conn[1].StartRecv(dst, 0, n)
			require.NoError(t, err)
			s, err := p.conn[0].StartSend(src, 0, n, reliability.SendOptions{})
			require.NoError(t, err)
			p.until(units.Second, func() bool { return finished(s) && finished(r) })
			require.NoError(t, s.Err(), "%s, MTU %d", name, mtu)
			require.NoError(t, r.Err(), "%s, MTU %d", name, mtu)
			require.Equal(t, src.Bytes(), dst.Bytes(), "%s, MTU %d", name, mtu)
		}
	}
}
