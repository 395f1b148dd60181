// SPDX-License-Identifier: Apache-2.0

//go:build !race

package fabricdev_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/fabricdev"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/fabric/topo"
	"github.com/sdr-rdma/go-sdr/fabric/workload"
	"github.com/sdr-rdma/go-sdr/internal/netsim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/transport/rc"
	"github.com/sdr-rdma/go-sdr/units"
)

// schemes are those that repair.
var schemes = []struct {
	name string
	make func() (scheme.Scheme, error)
}{
	{"sr", func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.RTO}) }},
	{"sr-nack", func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) }},
	{"ec-xor", func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8}) }},
	{"ec-mds", func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) }},
	{"adaptive", func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) }},
	{"strack", func() (scheme.Scheme, error) { return strack.New(strack.Config{}) }},
}

const (
	crossLoad = 0.5
	crossTime = 100 * units.Millisecond // longer than the transfers, and simulated no longer than they
)

// crossing is two connected QPs on hosts of different leaves among sixteen, with traffic of all.
type crossing struct {
	testing.TB
	net  *fabricdev.Network
	dev  [2]*fabricdev.Device
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

// newCrossing makes a leaf–spine of 16 hosts and 4 spines at 100 Gbit/s whose switches mark and drop,
// one link of which loses packets, and 50 % of load by go-back-N with DCQCN between all hosts.
func newCrossing(t testing.TB, mk func() (scheme.Scheme, error), cfg reliability.Config, seed uint64) *crossing {
	g, err := topo.Parse("leafspine:4x4x4,100G,1us")
	require.NoError(t, err)
	hosts := g.Hosts()
	c := &crossing{TB: t}
	dcqcn, err := congestion.Parse("dcqcn:hpcc")
	require.NoError(t, err)
	others := rc.Config{Mode: rc.GBN, Congestion: dcqcn.New, CNPInterval: dcqcn.CNPInterval}
	c.net, err = fabricdev.New(g, fabricdev.Config{Fabric: fabric.Config{
		Transport: others.Factory(),
		Buffer:    fabric.Buffer{Size: 4 * units.MiB},
		ECN:       []fabric.ECN{{KMin: 50_000, KMax: 200_000, PMax: 0.2}},
		Faults:    []fabric.Fault{{Link: linkOf(g, hosts[0]), Loss: netsim.Loss{Drop: 2e-3}}}, // four packets of a run
		Seed:      seed, CheckEvery: 100_003,
	}})
	require.NoError(t, err)
	sizes, err := workload.ReadCDF(strings.NewReader("1000 0\n10000 50\n1000000 100\n"))
	require.NoError(t, err)
	flows, err := workload.Arrivals{Sizes: sizes, Load: crossLoad, Rate: 100 * units.Gbit, Duration: crossTime}.Flows(hosts, seed)
	require.NoError(t, err)
	require.NoError(t, c.net.Fabric().AddFlows(flows))
	for i := range c.dev {
		c.dev[i], err = c.net.Device(hosts[i*(len(hosts)-1)])
		require.NoError(t, err)
		c.ctx[i], err = sdr.NewEndpoint(c.dev[i], sdr.EndpointConfig{Rand: rand.NewChaCha8([32]byte{byte(seed), byte(i)})})
		require.NoError(t, err)
		cfg.Scheme, err = mk()
		require.NoError(t, err)
		c.conn[i], err = reliability.NewConn(c.ctx[i], sdr.QPConfig{MTU: 4096, Channels: 4}, cfg)
		require.NoError(t, err)
	}
	for i := range c.conn {
		require.NoError(t, c.conn[i].StartConnect(c.conn[1-i].Info()))
	}
	c.until("connected", func() bool {
		a, errA := c.conn[0].Connected()
		b, errB := c.conn[1].Connected()
		require.NoError(t, errA)
		require.NoError(t, errB)
		return a && b
	})
	return c
}

// until runs both sides until cond holds, at most a second of virtual time.
func (c *crossing) until(what string, cond func() bool) {
	c.Helper()
	limit := c.net.Now().Add(units.Second)
	for stuck := 0; !cond(); {
		now := c.net.Now()
		soonest := limit
		for _, x := range c.ctx {
			soonest = min(soonest, x.Progress(now))
		}
		c.net.Run(max(soonest, now))
		if stuck++; c.net.Now() != now {
			stuck = 0
		}
		if stuck > 100_000 || c.net.Now() >= limit {
			c.Fatalf("waited in vain at %v: %s", c.net.Now(), what)
		}
	}
}

// carry sends n random bytes from one side to the other and compares them.
func (c *crossing) carry(from int, n units.Bytes, seed uint64) {
	c.Helper()
	src, dst := make([]byte, n), make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), 1}).Read(src)
	smr, err := c.ctx[from].RegisterMemory(src, 0)
	require.NoError(c, err)
	dmr, err := c.ctx[1-from].RegisterMemory(dst, sdr.AccessRemoteWrite)
	require.NoError(c, err)
	r, err := c.conn[1-from].StartRecv(dmr, 0, n)
	require.NoError(c, err)
	s, err := c.conn[from].StartSend(smr, 0, n, reliability.SendOptions{})
	require.NoError(c, err)
	c.until("transfer", func() bool { return isDone(r) && isDone(s) })
	require.NoError(c, s.Err())
	require.NoError(c, r.Err())
	require.Equal(c, n, r.Length())
	require.Equal(c, src, dst, "content")
	require.NoError(c, smr.Close())
	require.NoError(c, dmr.Close())
}

// Every scheme carries its transfers, in both directions, through a leaf–spine at 50 % load of others, with losses in
// queues and on a link, and is notified of the marks that its packets got.
func TestSchemesCrossTheFabric(t *testing.T) {
	for i, s := range schemes {
		t.Run(s.name, func(t *testing.T) {
			seed := uint64(i + 1)
			c := newCrossing(t, s.make, reliability.Config{}, seed)
			for k, n := range []units.Bytes{1, 4097, units.MiB, 3*units.MiB + 5} {
				c.carry(k%2, n, seed)
				c.carry(1-k%2, n, seed+100)
			}
			require.Less(t, c.net.Now(), units.Instant(crossTime), "the traffic of others must last longer than ours (seed %d)", seed)
			var lost uint64
			for i, d := range c.dev {
				st := d.Stats()
				lost += st.Drops[backend.DropEmulatedLoss] + st.Drops[backend.DropEmulatedQueue]
				require.NotZero(t, c.dev[1-i].Marked(), "packets from end %d met no queue that marks (seed %d)", i, seed)
				require.NotZero(t, c.conn[i].Stats().QP.Congestions, "end %d heard of no mark (seed %d)", i, seed)
			}
			require.NotZero(t, lost, "nothing was lost (seed %d)", seed)
			r := c.net.Fabric().Result()
			require.NotZero(t, r.Done, "flows of others (seed %d)", seed)
			t.Logf("%v; flows of others: %d of %d done; ours lost %d packets; %+v", units.Duration(c.net.Now()), r.Done, r.Flows, lost, r.Drops)
			for _, x := range c.ctx {
				require.NoError(t, x.Close())
			}
		})
	}
}

// watched is a controller and what was reported to it.
type watched struct {
	congestion.Controller
	seen *watch
}

type watch struct {
	notified int
	least    units.Rate
}

func (w watched) OnCNP(now units.Instant) {
	w.seen.notified++
	w.Controller.OnCNP(now)
}

func (w watched) Limits(now units.Instant) (units.Rate, units.Bytes) {
	r, window := w.Controller.Limits(now)
	if r > 0 {
		w.seen.least = min(w.seen.least, r)
	}
	return r, window
}

// Marks that switches draw come back as notifications and lower the rate of a DCQCN controller, as those on a
// wire would.
func TestMarksReachTheController(t *testing.T) {
	const line = 100 * units.Gbit
	dcqcn, err := congestion.Parse("dcqcn:hpcc")
	require.NoError(t, err)
	var seen []*watch
	cfg := reliability.Config{Rate: line, Congestion: congestion.Spec{Name: "watched", CNPInterval: dcqcn.CNPInterval, New: func(p congestion.Path) congestion.Controller {
		w := &watch{least: line}
		seen = append(seen, w)
		return watched{dcqcn.New(p), w}
	}}}
	c := newCrossing(t, schemes[1].make, cfg, 7)
	require.Len(t, seen, 2)
	for i := range 4 {
		c.carry(0, 2*units.MiB, uint64(i))
	}
	notifications := c.conn[0].Stats().QP.Congestions
	require.NotZero(t, notifications, "seed 7")
	require.NotZero(t, seen[0].notified, "seed 7")
	require.LessOrEqual(t, uint64(seen[0].notified), notifications, "notifications of several channels at one instant are one")
	require.Less(t, seen[0].least, line/2, "the rate falls")
	require.Equal(t, line, seen[1].least, "the receiver sends next to nothing")
	t.Logf("%d notifications, %d told, least rate %v", notifications, seen[0].notified, seen[0].least)
}
