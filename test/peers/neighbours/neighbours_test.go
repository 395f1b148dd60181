// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/test/peers/internal/hosts"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/link"
	"github.com/sdr-rdma/go-sdr/test/peers/internal/transport"
	"github.com/sdr-rdma/go-sdr/units"
)

// The test binary is its own host process, as the command is.
func TestMain(m *testing.M) {
	hosts.Serve("neighbours", serveEnd)
	os.Exit(m.Run())
}

// TestPlay runs two marked flows of sdr and one of TCP through a link that loses its rate for a while. How much each of
// them got depends on the machine; that all of it is counted doesn't.
func TestPlay(t *testing.T) {
	p, err := parse([]string{"-rate", "50mbit"})
	require.NoError(t, err)
	l := p.through(256 * units.KiB)
	l.Early = link.Early{From: 20000, To: 100000, Most: 0.5}
	l.Changes = []link.Change{{At: 500 * ms, Rate: int64(p.rate) / 2, Delay: 5 * ms}, {At: 900 * ms, Rate: int64(p.rate)}}
	f := p.ours(short, 0)
	f.ECN = true
	late := f
	late.RTT, late.Start = long, 200*ms
	s := &scene{
		part: "Test", name: "three flows", link: l, flows: []flow{f, late, {Transport: "cubic", RTT: short}}, length: 1500 * ms,
		judge: func(o *outcome) *verdict {
			return new(verdict).share("of the link", o.use(p.rate, 0, 1500*ms)).time("none", never).unless(false, "a bar")
		},
	}
	r := p.result(t.Context(), s)
	if errors.Is(r.err, hosts.ErrPrivilege) {
		t.Skip(r.err)
	}
	require.NoError(t, r.err)
	all := r.out.total(0, never/2)
	require.LessOrEqual(t, all.Bytes, r.out.to.Bytes)
	require.LessOrEqual(t, all.Packets, r.out.to.Packets)
	require.Positive(t, all.Marked)
	for i := range s.flows {
		require.Positive(t, r.out.sum(i, 0, never/2).Bytes, "flow %d", i)
	}
	require.Zero(t, r.out.sum(1, 0, 200*ms).Marked, "it begins later")
	require.Len(t, r.out.told, 3)
	require.Positive(t, r.out.told[0].All.Sent)
	require.Positive(t, r.out.told[0].All.CNPs)
	require.Positive(t, r.out.senders)

	text, missed := p.tables([]*result{r, {scene: s, err: errors.New("it is gone")}}, time.Now())
	require.Equal(t, 2, missed)
	require.Contains(t, text, "| scene | of the link | none | processors busy: senders, receivers, link | late | bars |\n|---|---|---|---|---|---|\n| three flows | ")
	require.Contains(t, text, "| never | ")
	require.Contains(t, text, "**missed: a bar** |\n| three flows | – | – | – | – | **not measured: it is gone** |\n")
	require.Contains(t, text, "0 of 2 rows")
	p.json = filepath.Join(t.TempDir(), "results")
	require.NoError(t, p.writeJSON([]*result{r}, time.Now()))
	b, err := os.ReadFile(p.json)
	require.NoError(t, err)
	var records []record
	require.NoError(t, json.Unmarshal(b, &records))
	require.Len(t, records[0].Flows, 3)
	require.Len(t, records[0].Flows[0].Bytes, 15)
}

func TestFlags(t *testing.T) {
	for _, bad := range [][]string{{"-rate", "1mbit"}, {"-rate", "3gbit"}, {"-mtu", "1279"}, {"-mtu", "4201"}, {"-congestion", "no"}, {"-congestion", "nscc"}, {"-congestion", "hpcc"}, {"-scheme", "quic"}, {"-only", "nothing"}, {"-only", "("}, {"x"}} {
		_, err := parse(bad)
		require.Error(t, err, "%q", bad)
	}
	for mtu, payload := range map[string]units.Bytes{"1280": units.KiB, "1500": units.KiB, "2112": 2 * units.KiB, "4200": 4 * units.KiB} {
		p, err := parse([]string{"-mtu", mtu})
		require.NoError(t, err)
		require.Equal(t, payload, p.payload())
	}
	p, err := parse([]string{"-only", "^Beside.*TCP bbr"})
	require.NoError(t, err)
	require.Len(t, p.chosen(), 4)
	p, err = parse(nil)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, s := range p.chosen() {
		require.False(t, names[s.part+s.name], "%s: %s is twice there", s.part, s.name)
		names[s.part+s.name] = true
	}
	require.Less(t, longest(p.chosen()), 20*time.Minute)
}

// made is an outcome of flows with these bytes in each bin.
func made(flows ...[]uint64) *outcome {
	o := &outcome{records: make([][]link.Record, len(flows))}
	for i, f := range flows {
		for _, n := range f {
			o.records[i] = append(o.records[i], link.Record{Bytes: n, Packets: 2, Wait: 2 * ms, Most: int(n)})
		}
	}
	return o
}

func steady(n uint64, bins int) (all []uint64) {
	for range bins {
		all = append(all, n)
	}
	return all
}

// TestJudging: what bars are judged by, of rates that are known: 12500 bytes in each 10 ms are 10 Mbit/s.
func TestJudging(t *testing.T) {
	const rate = 20 * units.Mbit
	o := made(steady(12500, 300), append(steady(12500, 200), steady(2500, 100)...))
	require.Equal(t, 10*units.Mbit, o.rate(0, 0, 3*time.Second))
	require.InDelta(t, 1, o.use(rate, 0, 2*time.Second), 1e-9)
	require.InDelta(t, 0.6, o.use(rate, 2*time.Second, 3*time.Second), 1e-9)
	require.InDelta(t, 1, o.worstJain(0, 2*time.Second), 1e-9)
	require.InDelta(t, 1.2*1.2/1.04/2, o.worstJain(0, 3*time.Second), 1e-9)
	require.InDelta(t, 0.1, o.leastShare(1, rate, time.Second, 0, 3*time.Second), 1e-9)
	require.Equal(t, ms, wait(o.total(0, time.Second)))
	require.Equal(t, 12500, o.total(0, time.Second).Most)

	o = made(append(steady(25000, 100), append(steady(0, 30), steady(25000, 170)...)...))
	require.Equal(t, 290*ms, o.reached(rate, 100*ms, time.Second, 3*time.Second), "one bin of ten may be empty")
	require.Equal(t, never, o.reached(rate, 100*ms, time.Second, 1200*ms))
}

// TestGoodput: a sender that fills the link and repeats just what gets lost has all of it but the loss, and one that adds a quarter of
// parity four fifths, whatever gets lost.
func TestGoodput(t *testing.T) {
	p, err := parse([]string{"-rate", "20mbit"})
	require.NoError(t, err)
	for _, c := range []struct {
		dropped, lost, again, parity uint64 // of 100 packets
		goodput                      float64
	}{{0, 0, 0, 0, 1}, {0, 10, 10, 0, 1}, {20, 0, 20, 0, 1}, {0, 0, 0, 20, 0.8}, {0, 10, 8, 20, 0.8}} {
		o := made(steady(25000*(100-c.lost)/100, 800))
		for i := range o.records[0] {
			r := &o.records[0][i]
			r.Packets, r.Dropped, r.Lost = 100, c.dropped, c.lost
		}
		o.told = []told{{All: transport.Poured{Sent: 100, Again: c.again, Parity: c.parity}}}
		l := p.through(p.product(short))
		l.Drop = float64(c.lost) / 100
		require.InDelta(t, c.goodput, p.judgeAlone(o, l, short, true).Figures[1].Value, 1e-9, "%+v", c)
	}
}
