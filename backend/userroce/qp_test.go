// SPDX-License-Identifier: Apache-2.0

package userroce

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/heaptest"
	"github.com/sdr-rdma/go-sdr/roce"
	"github.com/sdr-rdma/go-sdr/units"
)

func TestNewQPErrors(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	other := newSide(t, sideConfig{Config: testConfig(t, false)})
	ok := backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, MTU: 1024}
	for _, x := range []struct {
		change func(*backend.QPConfig)
		want   string
	}{
		{func(c *backend.QPConfig) { c.Type = 0 }, "unknown type 0"},
		{func(c *backend.QPConfig) { c.SendCQ = nil }, "queues of this device"},
		{func(c *backend.QPConfig) { c.RecvCQ = other.cq }, "queues of this device"},
		{func(c *backend.QPConfig) { c.Table = other.table }, "another device"},
		{func(c *backend.QPConfig) { c.MTU = 0 }, "choose 256, 512, 1024, 2048 or 4096"},
		{func(c *backend.QPConfig) { c.MTU = 1500 }, "choose 256, 512, 1024, 2048 or 4096"},
		{func(c *backend.QPConfig) { c.Channel = -1 }, "channel -1"},
	} {
		c := ok
		x.change(&c)
		_, err := e.d.NewQP(c)
		require.ErrorContains(t, err, x.want)
	}
	require.NoError(t, e.table.Close())
	_, err := e.d.NewQP(ok)
	require.ErrorIs(t, err, backend.ErrClosed)
}

func TestConnectErrors(t *testing.T) {
	a := newSide(t, sideConfig{Config: testConfig(t, false)})
	b := newSide(t, sideConfig{Config: testConfig(t, false), mtu: 1024})
	good := withMTU(b.qp.Info(), 4096)
	for _, x := range []struct {
		change func(*backend.QPInfo)
		want   string
	}{
		{func(i *backend.QPInfo) { i.MTU = 1024 }, "MTU 4096 here and 1024 at the peer"},
		{func(i *backend.QPInfo) { i.Addr = netip.IPv6Loopback() }, "both must be IPv4 or both IPv6"},
		{func(i *backend.QPInfo) { i.Addr = netip.Addr{} }, "both must be IPv4 or both IPv6"},
		{func(i *backend.QPInfo) { i.Addr = netip.IPv4Unspecified() }, "not that of one host"},
		{func(i *backend.QPInfo) { i.Addr = netip.MustParseAddr("224.0.0.1") }, "not that of one host"},
		{func(i *backend.QPInfo) { i.QPN = 1 }, "queue pair number 0x1"},
		{func(i *backend.QPInfo) { i.QPN = 0xffffff }, "queue pair number 0xffffff"},
		{func(i *backend.QPInfo) { i.QPN = 1 << 24 }, "queue pair number 0x1000000"},
	} {
		i := good
		x.change(&i)
		require.ErrorContains(t, a.qp.Connect(i), x.want)
	}
	_, err := a.qp.PostWrites(0, make([]backend.Write, 1))
	require.ErrorIs(t, err, errNotConnected)
	require.NoError(t, a.qp.Connect(good))
	require.ErrorContains(t, a.qp.Connect(good), "connected already")
	require.NoError(t, a.qp.Close())
	require.NoError(t, a.qp.Close())
	require.ErrorIs(t, a.qp.Connect(good), backend.ErrClosed)
	_, err = a.qp.PostWrites(0, make([]backend.Write, 1))
	require.ErrorIs(t, err, backend.ErrClosed)
}

// TestLinkLocalPeer: from a device whose address has no interface a link-local one can't be reached.
func TestLinkLocalPeer(t *testing.T) {
	e := newSide(t, sideConfig{Config: testConfig(t, true)})
	i := backend.QPInfo{Addr: netip.MustParseAddr("fe80::9"), QPN: 2}
	const want = "connect userroce: peer address fe80::9 is link-local, and own address ::1 says not on which interface: open both ends with such an address"
	require.ErrorContains(t, e.qp.Connect(i), want)
	_, err := e.d.OpenAddress(i)
	require.ErrorContains(t, err, want)
}

// TestInfo: the numbers that a device gives out come from its source of randomness, which makes runs
// repeatable, and by default differ from run to run.
func TestInfo(t *testing.T) {
	info := func(c Config) (backend.QPInfo, uint32) {
		e := newSide(t, sideConfig{Config: c})
		i := e.qp.Info()
		require.Equal(t, c.Addr, i.Addr)
		require.Equal(t, e.d.Addr().Port(), i.Port)
		require.Equal(t, backend.FlagICRCZeroID, i.Flags)
		require.EqualValues(t, 4096, i.MTU)
		i.Addr = netip.Addr{}
		return i, e.table.Root()
	}
	seeded := func() Config {
		c := testConfig(t, false)
		c.Rand = rand.NewChaCha8([32]byte{1})
		return c
	}
	i1, k1 := info(seeded())
	i2, k2 := info(seeded())
	require.Equal(t, i1, i2)
	require.Equal(t, k1, k2)
	i3, k3 := info(testConfig(t, false))
	i4, k4 := info(testConfig(t, false))
	require.NotEqual(t, [2]uint32{i3.PSN, k3}, [2]uint32{i4.PSN, k4})

	c := testConfig(t, false)
	c.Rand = bytes.NewReader(nil)
	_, err := Open(c)
	require.ErrorContains(t, err, "draw random numbers")
}

// TestQPNumbers fills a device, empties it and fills it again.
func TestQPNumbers(t *testing.T) {
	var table qpnTable
	rng := rand.New(rand.NewPCG(1, 1))
	all := make([]*queuePair, 0, 1<<qpnIndexBits)
	const workers, mask = 3, 3
	for w := range workers {
		for range 1 << qpnIndexBits / (mask + 1) {
			q := new(queuePair)
			require.NoError(t, table.insert(q, w, mask, rng.Uint32))
			all = append(all, q)
		}
		require.ErrorContains(t, table.insert(new(queuePair), w, mask, rng.Uint32), "all 16384 queue pairs of worker")
	}
	old := map[uint32]bool{}
	for i, q := range all {
		require.Same(t, q, table.lookup(q.qpn))
		require.EqualValues(t, i/(1<<14), q.qpn&mask)
		require.Nil(t, table.lookup(q.qpn^1<<20))
		require.False(t, old[q.qpn])
		old[q.qpn] = true
	}
	for i, q := range all {
		table.remove(q)
		require.Nil(t, table.lookup(q.qpn))
		next := new(queuePair)
		require.NoError(t, table.insert(next, i/(1<<14), mask, rng.Uint32))
		require.Equal(t, q.qpn&qpnIndexMask, next.qpn&qpnIndexMask)
		require.NotEqual(t, q.qpn, next.qpn, "a number is not used again at once")
	}

	// No queue pair has the number 0, 1 or all ones.
	var empty qpnTable
	draws := []uint32{0, 0, 5}
	q := new(queuePair)
	require.NoError(t, empty.insert(q, 0, 0, func() (v uint32) { v, draws = draws[0], draws[1:]; return }))
	require.EqualValues(t, 5<<16, q.qpn)
}

// TestIdleQPMemory: a UC queue pair without traffic is small, for an sdr QP may have 16 of them, and a process 512 QPs.
func TestIdleQPMemory(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(queuePair{}), uintptr(256))
	e := newSide(t, sideConfig{Config: testConfig(t, false)})
	const count = 512 * 16
	c := backend.QPConfig{Type: backend.UC, SendCQ: e.cq, RecvCQ: e.cq, Table: e.table, MTU: 4096}
	before := heaptest.Live()
	for i := range count {
		c.Channel = i
		q, err := e.d.NewQP(c)
		require.NoError(t, err)
		require.NoError(t, q.Connect(backend.QPInfo{Addr: e.d.addr, QPN: 2 + uint32(i)}))
	}
	require.Less(t, heaptest.Live()-before, units.Bytes(512*count))
}

// TestForeignPeer: a peer that doesn't announce identification 0 gets no trains on IPv4, and the
// identification it used is solved for.
func TestForeignPeer(t *testing.T) {
	foreign := func(i backend.QPInfo) backend.QPInfo { i.Flags = 0; return i }
	families(t, func(t *testing.T, v6 bool) {
		a := newSide(t, sideConfig{Config: testConfig(t, v6)})
		b := newSide(t, sideConfig{Config: testConfig(t, v6)})
		require.NoError(t, a.qp.Connect(foreign(b.qp.Info())))
		require.NoError(t, b.qp.Connect(foreign(a.qp.Info())))
		testDelivery(t, a, b, 4096)
		require.Equal(t, v6, a.d.WireStats().SendTrains != 0)
		require.Zero(t, b.d.WireStats().SolvedIDs, "the kernel sends identification 0")

		rkey, va := b.expose(100, 0, 4096)
		s := newStranger(t, a.d.addr, b.d)
		base := b.d.Stats().PacketsReceived
		good := uint64(0)
		for i, id := range []uint16{0, 1, 0x100, 0x1234, 0xffff} {
			packet := encode(t, b.validWrite(rkey, va, 32), 32)
			s.flow().SeedID(len(packet), id).Seal(packet)
			s.send(packet)
			require.Len(t, b.poll(1), 1)
			if id != 0 && !v6 {
				good++
			}
			packet[40+i] ^= 1 // corrupted: no identification makes it right, or it would be a 1:65536 chance
			s.send(packet)
			b.nothing(base + 2*uint64(i) + 2)
		}
		require.Equal(t, good, b.d.WireStats().SolvedIDs)
		require.Equal(t, map[string]uint64{"icrc": 5}, drops(b.d))
		if v6 {
			packet := encode(t, b.validWrite(rkey, va, 32), 32)
			s.flow().Seed(len(packet)).Seal(packet)
			addIdentification(t, packet, 7)
			s.send(packet)
			b.nothing(base + 11)
			require.Equal(t, map[string]uint64{"icrc": 6}, drops(b.d), "IPv6 has no identification that could excuse it")
		}
	})
}

// addIdentification changes the ICRC of a packet by what an identification would change it by over IPv4.
func addIdentification(t *testing.T, packet []byte, id uint16) {
	flow, err := roce.NewFlow(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2"))
	require.NoError(t, err)
	body, icrc := packet[:len(packet)-roce.ICRCSize], packet[len(packet)-roce.ICRCSize:]
	diff := flow.SeedID(len(packet), id).Sum(body) ^ flow.Seed(len(packet)).Sum(body)
	binary.LittleEndian.PutUint32(icrc, binary.LittleEndian.Uint32(icrc)^diff)
}

// TestZeroIDPeer: a peer that announced identification 0 keeps the check of 32 bits.
func TestZeroIDPeer(t *testing.T) {
	a, b := newPair(t, false)
	rkey, va := b.expose(0, 0, 4096)
	s := newStranger(t, a.d.addr, b.d)
	packet := encode(t, b.validWrite(rkey, va, 32), 32)
	s.flow().SeedID(len(packet), 7).Seal(packet)
	s.send(packet)
	b.nothing(1)
	require.Equal(t, map[string]uint64{"icrc": 1}, drops(b.d))
}

// TestForeignDatagram: the source queue pair number of a datagram says which peer it is from, and where several hosts have
// given it, the address does.
func TestForeignDatagram(t *testing.T) {
	a, b := newPair(t, false)
	to := b.newUD()
	first := backend.QPInfo{Addr: loopback(), QPN: 0x4242}
	second := backend.QPInfo{Addr: a.d.addr, QPN: 0x4242}
	_, err := b.d.OpenAddress(first)
	require.NoError(t, err)
	h, err := b.d.OpenAddress(second)
	require.NoError(t, err)
	send := func(s *stranger) {
		packet := encode(t, roce.Packet{
			Opcode: roce.UDSendOnly, DestQP: roce.QPN(to.Info().QPN), PKey: roce.DefaultPKey,
			QKey: roce.QKey(backend.DatagramQKey), SrcQP: 0x4242,
		}, 8)
		s.flow().SeedID(len(packet), 99).Seal(packet)
		s.send(packet)
	}
	s := newStranger(t, second.Addr, b.d)
	send(newStranger(t, first.Addr, b.d))
	require.Len(t, b.poll(1), 1)
	send(s)
	require.Len(t, b.poll(1), 1, "another host with the same number")
	require.EqualValues(t, 2, b.d.WireStats().SolvedIDs)
	require.NoError(t, b.d.CloseAddress(h))
	send(s)
	b.nothing(3)
	require.Equal(t, map[string]uint64{"icrc": 1}, drops(b.d))
}

// TestSourcesAgainstHandles: a packet with a wrong ICRC is held against those peers that it claims to be from, whatever handles come and
// go, and against few others.
func TestSourcesAgainstHandles(t *testing.T) {
	for _, anySource := range []bool{false, true} {
		c := testConfig(t, false)
		c.AllowAnySource = anySource
		d := openTest(t, c)
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		open := map[backend.AddressHandle]backend.QPInfo{}
		for range 4000 {
			if rng.IntN(3) == 0 {
				for h := range open {
					require.NoError(t, d.CloseAddress(h))
					delete(open, h)
					break
				}
				continue
			}
			i := backend.QPInfo{Addr: netip.AddrFrom4([4]byte{127, 1, byte(rng.IntN(8)), byte(1 + rng.IntN(8))}), QPN: 0x10000*rng.Uint32N(4) + 2 + rng.Uint32N(8)}
			if rng.IntN(4) == 0 {
				i.Flags = backend.FlagICRCZeroID
			}
			h, err := d.OpenAddress(i)
			require.NoError(t, err)
			open[h] = i
		}
		longest := 0
		for _, i := range open {
			want, got, passed := 0, 0, 0
			for _, o := range open {
				if o.QPN == i.QPN && (anySource || o.Addr == i.Addr && o.Flags == 0) {
					want++
				}
			}
			for p := d.source(keyOf(i.Addr), i.QPN).Load(); p != nil; p = p.next.Load() {
				if passed++; p.qpn == i.QPN && (anySource || p.addr == i.Addr) {
					got++
				}
			}
			require.Equal(t, want, got, "seed %d", seed)
			longest = max(longest, passed-got)
		}
		require.Less(t, longest, len(open)/4, "others that are looked at, of %d; seed %d", len(open), seed)
	}
}
