// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

// withECN configures both sides.
func withECN(a, b *sideConfig) { a.ECN, b.ECN = true, true }

// tosOf counts the packets that pass inbound by their TOS.
func tosOf(seen map[uint8]int) *testWire {
	return &testWire{in: func(p *backend.WirePacket) { seen[p.TOS]++ }}
}

// TestECNCapableWhenBothSay: data is ECT(0) between two sides that both say so, in trains and packet by packet, and
// nowhere else. The TOS is what the receiver's kernel has read.
func TestECNCapableWhenBothSay(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, c := range []struct {
			sender, receiver, plain bool
			dscp                    uint8
			want                    uint8
		}{
			{true, true, false, 0, 2},
			{true, true, true, 0, 2},
			{true, true, false, 26, 26<<2 | 2},
			{false, true, false, 0, 0},
			{false, true, false, 10, 10 << 2},
		} {
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				seen := map[uint8]int{}
				a, b := newPair(t, v6, func(a, b *sideConfig) {
					a.ECN, a.DSCP, a.DisableGSO = c.sender, c.dscp, c.plain
					b.ECN, b.Wire = c.receiver, tosOf(seen)
				})
				rkey, va := b.expose(0, 0, testMax)
				a.post(a.message(rkey, va, 40*4096, 4096)...)
				require.Len(t, b.poll(40), 40)
				require.Equal(t, map[uint8]int{c.want: 40}, seen)
				require.Equal(t, c.sender, a.d.Caps().ECN)
				require.Equal(t, c.sender, a.qp.Info().Flags&backend.FlagCNP != 0)
				require.Equal(t, c.plain, a.d.WireStats().SendTrains == 0)
			})
		}
	})
}

// TestNotECNCapableToOthers: a peer that doesn't say so gets data that isn't ECN-capable.
func TestNotECNCapableToOthers(t *testing.T) {
	wire := new(testWire)
	var seen []uint8
	wire.out = func(p *backend.WirePacket) { seen = append(seen, p.TOS) }
	a, b := newPair(t, false, func(a, b *sideConfig) { a.ECN, a.DSCP, a.Wire = true, 5, wire })
	rkey, va := b.expose(0, 0, testMax)
	a.post(a.message(rkey, va, 3*4096, 4096)...)
	require.Len(t, b.poll(3), 3)
	require.Equal(t, []uint8{5 << 2, 5 << 2, 5 << 2}, seen)
}

// TestControlIsNotECNCapable: datagrams have CS6 where data has a DSCP or is ECN-capable.
func TestControlIsNotECNCapable(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, on := range []bool{false, true} {
			seen := map[uint8]int{}
			a, b := newPair(t, v6, func(a, b *sideConfig) { a.ECN, b.ECN, b.Wire = on, true, tosOf(seen) })
			h, err := a.d.OpenAddress(b.newUD().Info())
			require.NoError(t, err)
			n, err := a.newUD().PostDatagrams(0, []backend.Datagram{{To: h, Data: make([]byte, 10)}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Len(t, b.poll(1), 1)
			require.Equal(t, map[uint8]int{map[bool]uint8{false: 0, true: 48 << 2}[on]: 1}, seen)
		}
	})
}

// pollAt polls once at an instant that the test chooses, when something has come.
func (e *side) pollAt(now units.Instant) []backend.Completion {
	e.t.Helper()
	require.NoError(e.t, e.cq.Wait(units.Second))
	n, err := e.cq.Poll(now, e.batch[:])
	require.NoError(e.t, err)
	return e.batch[:n]
}

// TestMarksOfTheKernel: packets that carry CE are flagged, each of a train, and no others.
func TestMarksOfTheKernel(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, plain := range []bool{false, true} {
			a, b := newPair(t, v6, withECN, func(a, b *sideConfig) { a.DisableGSO = plain })
			rkey, va := b.expose(0, 0, testMax)
			w := a.message(rkey, va, 64*4096, 4096)
			marked := 0
			for i := range w {
				w[i].Marked = i/16%2 == 1 // as if a queue had marked it
			}
			for i := 0; i < len(w); i += 32 {
				a.post(w[i : i+32]...)
			}
			for _, c := range b.poll(64) {
				require.Equal(t, backend.KindWrite, c.Kind)
				require.Equal(t, c.Imm/16%2 == 1, c.Flags&backend.FlagECN != 0, "packet %d", c.Imm)
				marked += int(c.Flags & backend.FlagECN)
			}
			require.Equal(t, 32, marked)
			s := b.d.Stats().Congestion
			require.EqualValues(t, 32, s.NPMarked)
			require.NotZero(t, s.NPCNPSent)
			require.LessOrEqual(t, s.NPCNPSent, s.NPMarked)
			require.Equal(t, plain, b.d.WireStats().RecvTrains == 0)
			got := a.poll(1)
			require.Equal(t, backend.KindCongestion, got[0].Kind)
			require.EqualValues(t, testCookie, got[0].Cookie)
		}
	})
}

// TestNotificationPoint: marked packets are answered with at most one CNP each 50 µs for a queue pair, whatever the
// number of them, and unmarked ones with none.
func TestNotificationPoint(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		wire := new(testWire)
		var cnps []backend.WirePacket
		wire.in = func(p *backend.WirePacket) { p.TOS |= ecnCE }
		wire.out = func(p *backend.WirePacket) {
			cnps = append(cnps, backend.WirePacket{Src: p.Src, Dst: p.Dst, TOS: p.TOS, Data: append([]byte(nil), p.Data...)})
		}
		a, b := newPair(t, v6, withECN, func(_, b *sideConfig) { b.Wire = wire })
		rkey, va := b.expose(0, 0, testMax)
		w := a.message(rkey, va, 4*4096, 4096)
		const start = units.Instant(units.Second)
		for _, c := range []struct {
			at   units.Duration
			cnps int // until then
		}{{0, 1}, {0, 1}, {49999, 1}, {50000, 2}, {51000, 2}, {100000, 3}, {units.Second, 4}} {
			a.post(w...)
			for left := len(w); left > 0; {
				for _, x := range b.pollAt(start.Add(c.at)) {
					require.Equal(t, backend.FlagECN, x.Flags)
					left--
				}
			}
			require.Len(t, cnps, c.cnps, "after %v", c.at)
		}
		for _, p := range cnps {
			require.EqualValues(t, 48<<2, p.TOS, "CS6, not ECN-capable")
			f, err := roce.NewFlow(p.Src, p.Dst)
			require.NoError(t, err)
			require.True(t, f.Seed(len(p.Data)).Verify(p.Data))
			x, err := roce.ParseCNP(p.Data)
			require.NoError(t, err)
			require.EqualValues(t, a.qp.Info().QPN, x.BTH().DestQP())
			require.True(t, x.BTH().BECN())
		}
		s := b.d.Stats().Congestion
		require.Equal(t, backend.CongestionStats{NPMarked: 28, NPCNPSent: 4}, s)

		// The sender is notified once for all that came together.
		require.Len(t, a.poll(1), 1)
		require.Equal(t, backend.CongestionStats{RPCNPHandled: 1, RPCNPIgnored: 3}, a.d.Stats().Congestion)

		wire.in = nil
		a.post(w...)
		for _, x := range b.poll(4) {
			require.Zero(t, x.Flags)
		}
		require.Len(t, cnps, 4)
	})
}

// TestForgedCNPs: what isn't a CNP of the peer changes nothing, and of those that look like one, each queue pair heeds
// one each 50 µs. All are counted.
func TestForgedCNPs(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6, withECN)
		ud := a.newUD()
		cnp := func(qpn uint32) []byte {
			p := make([]byte, roce.CNPPacketSize)
			roce.CNP(p).Set(roce.QPN(qpn), roce.DefaultPKey)
			return p
		}
		s := newStranger(t, b.d.addr, a.d) // the peer's address
		expect := func(name string, drops0 map[string]uint64, want backend.CongestionStats) {
			a.nothing(s.sent)
			require.Equal(t, drops0, drops(a.d), name)
			require.Equal(t, want, a.d.Stats().Congestion, name)
		}
		s.send(cnp(a.qp.Info().QPN))
		expect("ICRC", map[string]uint64{"icrc": 1}, backend.CongestionStats{})
		s.seal(cnp(a.qp.Info().QPN ^ 0x10000))
		expect("other queue pair", map[string]uint64{"icrc": 1, "unknown_qp": 1}, backend.CongestionStats{})
		s.seal(cnp(ud.Info().QPN))
		expect("UD queue pair", map[string]uint64{"icrc": 1, "unknown_qp": 1, "opcode": 1}, backend.CongestionStats{})
		p := cnp(a.qp.Info().QPN)
		roce.CNP(p).BTH().SetECN(false, false)
		s.seal(p)
		expect("no BECN", map[string]uint64{"icrc": 1, "unknown_qp": 1, "opcode": 1}, backend.CongestionStats{RPCNPIgnored: 1})
		s.seal(cnp(a.qp.Info().QPN)[:roce.CNPPacketSize-4])
		expect("short", map[string]uint64{"icrc": 1, "unknown_qp": 1, "opcode": 1, "malformed": 1}, backend.CongestionStats{RPCNPIgnored: 1})

		// A flood: 40 at each of 25 instants 10 µs apart.
		const rounds, each = 25, 40
		var notifications int
		for i := range rounds {
			for range each {
				s.seal(cnp(a.qp.Info().QPN))
			}
			for a.d.Stats().PacketsReceived < s.sent {
				for _, c := range a.pollAt(units.Instant(units.Second).Add(units.Duration(i) * 10 * units.Microsecond)) {
					require.Equal(t, backend.Completion{Kind: backend.KindCongestion, Cookie: testCookie}, c)
					notifications++
				}
			}
		}
		require.Equal(t, 5, notifications, "one each 50 µs in 250")
		require.Equal(t, backend.CongestionStats{RPCNPHandled: 5, RPCNPIgnored: rounds*each - 5 + 1}, a.d.Stats().Congestion)
	})
}

// TestForgedCNPFromElsewhere: notifications count from the peer's address alone, and only where data is ECN-capable.
func TestForgedCNPFromElsewhere(t *testing.T) {
	a, _ := newPair(t, false, withECN)
	s := newStranger(t, loopback(), a.d)
	p := make([]byte, roce.CNPPacketSize)
	roce.CNP(p).Set(roce.QPN(a.qp.Info().QPN), roce.DefaultPKey)
	s.seal(p)
	a.nothing(1)
	require.Equal(t, map[string]uint64{"source": 1}, drops(a.d))

	// A peer that doesn't say that it answers marks gets nothing that could be marked.
	a, b := newPair(t, false, func(a, _ *sideConfig) { a.ECN = true })
	s = newStranger(t, b.d.addr, a.d)
	roce.CNP(p).Set(roce.QPN(a.qp.Info().QPN), roce.DefaultPKey)
	s.seal(p)
	a.nothing(1)
	require.Equal(t, backend.CongestionStats{RPCNPIgnored: 1}, a.d.Stats().Congestion)
}

// TestCongestionNames: the counters have the names under which mlx5 shows its own.
func TestCongestionNames(t *testing.T) {
	got := map[string]uint64{}
	for name, n := range (&backend.CongestionStats{NPMarked: 1, NPCNPSent: 2, RPCNPHandled: 3, RPCNPIgnored: 4}).All {
		got[name] = n
	}
	require.Equal(t, map[string]uint64{"np_ecn_marked_roce_packets": 1, "np_cnp_sent": 2, "rp_cnp_handled": 3, "rp_cnp_ignored": 4}, got)
}

// TestTOSOfSockets: what the device asks of the kernel is what other programs see of it.
func TestTOSOfSockets(t *testing.T) {
	a, _ := newPair(t, false, withECN)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	at := loopback()
	require.NoError(t, bind(fd, at, 0, 0))
	port, err := boundPort(fd)
	require.NoError(t, err)
	require.NoError(t, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1))
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	q, err := a.d.NewQP(backend.QPConfig{Type: backend.UC, SendCQ: a.cq, RecvCQ: a.cq, MTU: 4096})
	require.NoError(t, err)
	require.NoError(t, q.Connect(backend.QPInfo{Addr: at, Port: port, QPN: 0x100, Flags: backend.FlagICRCZeroID | backend.FlagCNP}))
	_, err = q.PostWrites(a.d.Now(), []backend.Write{{LKey: a.mr.LKey(), Length: 100}})
	require.NoError(t, err)
	buf, oob := make([]byte, 4096), make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(fd, buf, oob, 0)
	require.NoError(t, err)
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	require.NoError(t, err)
	require.Len(t, msgs, 1)
	require.EqualValues(t, unix.IP_TOS, msgs[0].Header.Type)
	require.Equal(t, byte(ecnECT0), msgs[0].Data[0])
}

// TestMarksBetweenHosts is TestMarksOfTheKernel over a network interface, with each packet marked or not by itself: what
// the receiving kernel puts together has one TOS.
func TestMarksBetweenHosts(t *testing.T) {
	if !requireNamespace(t) {
		return
	}
	families(t, func(t *testing.T, v6 bool) {
		_, _, a, b := hostPair(t, v6, withECN, func(a, _ *sideConfig) { a.DisableGSO = true })
		rkey, va := b.expose(0, 0, testMax)
		w := a.message(rkey, va, 100*1024, 1024)
		q := a.qp.(*queuePair)
		require.Eventually(t, func() bool { // the neighbour has been found
			a.post(w[0])
			return len(b.pollAt(b.d.Now())) > 0
		}, 20*time.Second, time.Millisecond)
		for i := range w {
			q.sender.mu.Lock()
			q.peer.Load().tos = ecnECT0 + int32(i/3%2)
			q.sender.mu.Unlock()
			a.post(w[i])
		}
		for last := uint32(0); last != 99; {
			got := b.poll(1)
			require.NotEmpty(t, got)
			for _, c := range got {
				require.Equal(t, c.Imm/3%2 == 1, c.Flags&backend.FlagECN != 0, "packet %d", c.Imm)
				last = c.Imm
			}
		}
		t.Logf("%d trains received", b.d.WireStats().RecvTrains)
	})
}
