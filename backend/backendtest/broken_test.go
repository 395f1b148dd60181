// SPDX-License-Identifier: Apache-2.0

package backendtest_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/backendtest"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/units"
)

// simMaker makes pairs of simulated devices, spoilt by spoil, which gets each of them.
func simMaker(cfg sim.Config, spoil func(d *shim)) backendtest.Maker {
	return func(t testing.TB, ask backendtest.Faults) *backendtest.Pair {
		cfg := cfg
		cfg.Link.Loss.Drop, cfg.Link.Duplicate, cfg.Link.Reorder, cfg.Link.Corrupt = ask.Loss, ask.Duplicate, ask.Reorder, ask.Corrupt
		cfg.Link.ReorderDelay = 10 * units.Microsecond
		n, err := sim.New(cfg)
		require.NoError(t, err)
		a, b := spoilt(n.A(), n.B(), spoil)
		return &backendtest.Pair{A: a, B: b, Advance: n.Advance, Next: n.Next, Faults: ask}
	}
}

// realMaker is simMaker on sockets.
func realMaker(spoil func(d *shim)) backendtest.Maker {
	return func(t testing.TB, _ backendtest.Faults) *backendtest.Pair {
		var dev [2]backend.Device
		for i := range dev {
			d, err := userroce.Open(userroce.Config{
				Addr: netip.MustParseAddr("127.0.0.1"), Port: userroce.AnyPort, Logger: slog.New(slog.DiscardHandler),
			})
			require.NoError(t, err)
			dev[i] = d
		}
		a, b := spoilt(dev[0], dev[1], spoil)
		p := &backendtest.Pair{A: a, B: b}
		if spoil != nil {
			p.Timeout = 500 * time.Millisecond
		}
		return p
	}
}

func spoilt(x, y backend.Device, spoil func(*shim)) (a, b *shim) {
	a, b = &shim{Device: x}, &shim{Device: y}
	a.peer, b.peer = b, a
	if spoil != nil {
		spoil(a)
		spoil(b)
	}
	return a, b
}

var (
	plain = sim.Config{MaxMTU: 4096}
	timed = sim.Config{MaxMTU: 4096, Rate: 10 * units.Gbit, Link: sim.Link{Delay: 20 * units.Microsecond}, RevokeTime: 50 * units.Microsecond}
)

// The suite finds nothing wrong with devices behind a shim that does nothing.
func TestGoodDevicesPass(t *testing.T) {
	for name, mk := range map[string]backendtest.Maker{"sim": simMaker(timed, nil), "userroce": realMaker(nil)} {
		for _, c := range allCases() {
			if name == "userroce" && c.Name == "many messages" {
				continue // takes its time, and is run elsewhere
			}
			f := &fakeTB{name: c.Name}
			f.run(c, mk)
			require.False(t, f.failed, "%s: %s: %s", name, c.Name, f.text())
		}
	}
}

// changed is a poll hook that changes each completion, and drops it when change says no.
func changed(change func(*backend.Completion) bool) func(*shimCQ, units.Instant, []backend.Completion) (int, error) {
	return func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
		n, err := cq.CQ.Poll(now, dst)
		k := 0
		for _, c := range dst[:n] {
			if change(&c) {
				dst[k] = c
				k++
			}
		}
		return k, err
	}
}

// posting is a post hook that changes each write before it is posted.
func posting(change func(q *shimQP, w *backend.Write)) func(*shimQP, units.Instant, []backend.Write) (int, error) {
	return func(q *shimQP, now units.Instant, w []backend.Write) (int, error) {
		w = append([]backend.Write(nil), w...)
		for i := range w {
			change(q, &w[i])
		}
		return q.QP.PostWrites(now, w)
	}
}

// broken devices, and the cases that find out.
var broken = []struct {
	name  string
	cfg   sim.Config
	cases []string
	spoil func(d *shim)
}{
	{"claims what can't be", plain, []string{"caps"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.RootKey = false }
	}},
	{"shares a QPN", plain, []string{"info"}, func(d *shim) {
		d.info = func(i *backend.QPInfo) { i.QPN = 7 }
	}},
	{"doesn't compare MTUs", plain, []string{"MTU"}, func(d *shim) {
		d.connect = func(q *shimQP, peer backend.QPInfo) error { peer.MTU = q.cfg.MTU; return q.QP.Connect(peer) }
	}},
	{"loses a completion", plain, []string{"delivery", "sdr messages"}, func(d *shim) {
		count := 0
		d.poll = changed(func(c *backend.Completion) bool {
			if c.Kind == backend.KindWrite {
				count++
			}
			return c.Kind != backend.KindWrite || count%11 != 0
		})
	}},
	{"marks what met no queue", plain, []string{"delivery"}, func(d *shim) {
		d.poll = changed(func(c *backend.Completion) bool { c.Flags |= backend.FlagECN; return true })
	}},
	{"reports a completion twice", plain, []string{"delivery"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			n, err := cq.CQ.Poll(now, dst)
			if n > 0 && n < len(dst) && dst[n-1].Kind == backend.KindWrite {
				dst[n] = dst[n-1]
				n++
			}
			return n, err
		}
	}},
	{"swaps the bytes of immediates", plain, []string{"delivery"}, func(d *shim) {
		d.poll = changed(func(c *backend.Completion) bool { c.Imm = c.Imm>>24 | c.Imm<<8; return true })
	}},
	{"counts a byte too many", plain, []string{"delivery"}, func(d *shim) {
		d.poll = changed(func(c *backend.Completion) bool { c.Len++; return true })
	}},
	{"mixes cookies up", plain, []string{"queue pairs"}, func(d *shim) {
		d.poll = changed(func(c *backend.Completion) bool { c.Cookie ^= 1; return true })
	}},
	{"reports before the bytes are there", plain, []string{"delivery", "sdr messages"}, tardy},
	{"writes the byte before as well", plain, []string{"delivery", "order"}, func(d *shim) {
		d.postWrites = posting(func(_ *shimQP, w *backend.Write) {
			if w.Length > 1 && w.Offset > 0 && w.VA%4096 != 0 {
				w.VA, w.Offset = w.VA-1, w.Offset-1
			}
		})
	}},
	{"sends the last first", plain, []string{"order"}, func(d *shim) {
		d.postWrites = func(q *shimQP, now units.Instant, w []backend.Write) (int, error) {
			for i := len(w) - 1; i >= 0; i-- {
				if n, err := q.QP.PostWrites(now, w[i:i+1]); n == 0 {
					return 0, err
				}
			}
			return len(w), nil
		}
	}},
	{"cuts what is too large", plain, []string{"too large"}, func(d *shim) {
		d.postWrites = posting(func(q *shimQP, w *backend.Write) { w.Length = min(w.Length, uint32(q.cfg.MTU)) })
	}},
	{"says that it took all", timed, []string{"full queue"}, func(d *shim) {
		d.postWrites = func(q *shimQP, now units.Instant, w []backend.Write) (int, error) {
			n, err := q.QP.PostWrites(now, w)
			if err == nil {
				n = len(w)
			}
			return n, err
		}
	}},
	{"ignores rkeys", plain, []string{"bad rkey"}, func(d *shim) {
		d.postWrites = posting(func(q *shimQP, w *backend.Write) { w.RKey = q.d.peer.tables[0].Root() })
	}},
	{"ignores bounds", plain, []string{"out of bounds"}, func(d *shim) {
		d.expose = func(t *shimTable, _ uint64, rg backend.Range) backend.Range {
			rg.Length = min(t.cfg.MaxMessage, units.Bytes(len(t.d.registered()[0].Bytes()))-rg.Offset)
			return rg
		}
	}},
	{"ignores the sequence", plain, []string{"late sequence", "sdr late packets", "zero length"}, func(d *shim) {
		d.postWrites = posting(func(q *shimQP, w *backend.Write) {
			t := q.d.peer.tables[0]
			most := uint64(t.cfg.MaxMessage)
			if n, ok := t.live[w.VA/most%uint64(t.cfg.Slots)]; ok {
				w.VA = n*most + w.VA%most
			}
		})
	}},
	{"forgets writes without payload", plain, []string{"zero length", "sdr messages"}, func(d *shim) {
		d.poll = changed(func(c *backend.Completion) bool { return c.Kind != backend.KindWrite || c.Len > 0 })
	}},
	{"exposes a slot twice", plain, []string{"expose"}, func(d *shim) { d.exposed = func(error) error { return nil } }},
	{"revokes nothing", plain, []string{"NULL entry", "revoke", "many messages"}, func(d *shim) {
		d.startRevoke = func(*shimTable, uint64) {}
		d.revoked = func(*shimTable, uint64) bool { return true }
	}},
	{"has no fence", timed, []string{"revoke", "sdr early completion"}, func(d *shim) {
		d.revoked = func(t *shimTable, n uint64) bool {
			t.Table.Revoked(n)
			return true
		}
	}},
	{"never lowers the fence", plain, []string{"expose", "revoke", "many messages"}, func(d *shim) {
		d.revoked = func(*shimTable, uint64) bool { return false }
	}},
	{"writes one byte late", plain, []string{"revoke", "many messages", "sdr early completion"}, lateByte},
	{"lets memory go that is exposed", plain, []string{"region busy"}, func(d *shim) {
		d.regionClose = func(backend.Region) error { return nil }
	}},
	{"reports sends in any order", plain, []string{"sent in order"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			n, err := cq.CQ.Poll(now, dst)
			for i := 1; i < n; i += 2 {
				if dst[i].Kind == backend.KindSent && dst[i-1].Kind == backend.KindSent {
					dst[i], dst[i-1] = dst[i-1], dst[i]
				}
			}
			return n, err
		}
	}},
	{"reports every send", plain, []string{"sent in order"}, func(d *shim) {
		d.postWrites = posting(func(_ *shimQP, w *backend.Write) { w.Signaled = true })
	}},
	{"forgets a report", plain, []string{"sent in order", "sdr messages"}, func(d *shim) {
		count := 0
		d.poll = changed(func(c *backend.Completion) bool { count++; return c.Kind != backend.KindSent || count%13 != 0 })
	}},
	{"reports sends too early", timed, []string{"sent frees memory"}, premature},
	{"cuts a byte off datagrams", plain, []string{"datagrams"}, func(d *shim) {
		d.datagram = func(b []byte) []byte { return b[:max(0, len(b)-1)] }
	}},
	{"keeps one datagram only", plain, []string{"datagrams"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			n, err := cq.CQ.Poll(now, dst)
			for i := range n {
				if dst[i].Kind == backend.KindDatagram {
					dst[i].WRID = dst[n-1].WRID
				}
			}
			return n, err
		}
	}},
	{"sends datagrams later", plain, []string{"datagrams"}, func(d *shim) {
		d.postDatagrams = func(q *shimQP, now units.Instant, x []backend.Datagram) (int, error) {
			n, err := q.QP.PostDatagrams(now, q.saved)
			q.saved = append(q.saved[n:], x...)
			return len(x), err
		}
	}},
	{"takes datagrams of any size", plain, []string{"datagrams refused"}, func(d *shim) {
		d.postDatagrams = func(q *shimQP, now units.Instant, x []backend.Datagram) (int, error) {
			n, _ := q.QP.PostDatagrams(now, x)
			return n, nil
		}
	}},
	{"forgets what doesn't fit", plain, []string{"poll"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			all := make([]backend.Completion, 64)
			n, err := cq.CQ.Poll(now, all)
			return copy(dst, all[:n]), err
		}
	}},
	{"wants to be polled at once, for nothing", timed, []string{"delivery"}, func(d *shim) {
		d.next = func() units.Instant { return 0 }
	}},
	{"damages bytes on the way", plain, []string{"delivery", "corruption", "sdr messages"}, func(d *shim) {
		d.postWrites = posting(func(_ *shimQP, w *backend.Write) {
			if w.Length > 0 && w.Imm%8 == 3 && w.Offset < 1000 {
				w.Offset++
			} else if w.Length > 0 && w.Imm%8 == 3 {
				w.Offset--
			}
		})
	}},
	{"reports for closed queue pairs", plain, []string{"close queue pair"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			n, err := cq.CQ.Poll(now, dst)
			if n > 0 && n < len(dst) && dst[0].Kind == backend.KindSent {
				dst[n] = backend.Completion{Kind: backend.KindSent, Cookie: backendtest.CookieUC}
				n++
			}
			return n, err
		}
	}},
	{"takes posts when closed", plain, []string{"close device", "close queue pair"}, func(d *shim) {
		d.postWrites = func(q *shimQP, now units.Instant, w []backend.Write) (int, error) {
			n, err := q.QP.PostWrites(now, w)
			if errors.Is(err, backend.ErrClosed) {
				return len(w), nil
			}
			return n, err
		}
	}},
	{"leaves a goroutine behind", plain, []string{"close device"}, func(d *shim) {
		d.closeDevice = func(inner backend.Device) error {
			go func() { <-time.After(time.Minute) }()
			return inner.Close()
		}
	}},
	{"leaves a descriptor behind", plain, []string{"close device"}, func(d *shim) {
		var left []*os.File
		d.closeDevice = func(inner backend.Device) error {
			if f, err := os.Open(os.DevNull); err == nil {
				left = append(left, f)
			}
			return inner.Close()
		}
	}},
	{"revokes whoever is in the slot", plain, []string{"expose"}, func(d *shim) {
		d.startRevoke = func(t *shimTable, n uint64) { t.Table.StartRevoke(t.live[n%uint64(t.cfg.Slots)]) }
	}},
	{"waits for what was never exposed", plain, []string{"expose"}, func(d *shim) {
		d.revoked = func(t *shimTable, n uint64) bool { return t.old[n] != nil && t.Table.Revoked(n) }
	}},
	{"doesn't say that dead addresses complete", sim.Config{MaxMTU: 4096, DeadKey: backend.DeadKeyCompletes}, []string{"NULL entry"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.DeadKey = backend.DeadKeySilent }
	}},
	{"doesn't say that it needs receives", sim.Config{MaxMTU: 4096, NeedsReceives: true}, []string{"unposted receive"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.NeedsReceives = false }
	}},
	{"says that it needs receives", plain, []string{"unposted receive"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.NeedsReceives = true }
	}},
	{"says that it copies what it sends", timed, []string{"sent frees memory"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.Inline = true }
	}},
	{"leaves completions behind", plain, []string{"poll"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			return cq.CQ.Poll(now, dst[:min(len(dst), 8)])
		}
	}},
	{"sends from somewhere", plain, []string{"bad source"}, func(d *shim) {
		d.postWrites = posting(func(q *shimQP, w *backend.Write) { w.LKey, w.Offset = q.d.registered()[1].LKey(), w.Offset&0xfff })
	}},
	{"refuses marks", plain, []string{"delivery"}, func(d *shim) {
		d.caps = func(c *backend.Caps) { c.ECN = false }
		d.postWrites = func(q *shimQP, now units.Instant, w []backend.Write) (int, error) {
			if w[0].Marked {
				return 0, errors.New("no marks")
			}
			return q.QP.PostWrites(now, w)
		}
	}},
	{"polls what is closed", plain, []string{"objects"}, func(d *shim) {
		d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
			n, err := cq.CQ.Poll(now, dst)
			if errors.Is(err, backend.ErrClosed) {
				return 0, nil
			}
			return n, err
		}
	}},
	{"sends datagrams when closed", plain, []string{"close device"}, func(d *shim) {
		d.postDatagrams = func(q *shimQP, now units.Instant, x []backend.Datagram) (int, error) {
			n, _ := q.QP.PostDatagrams(now, x)
			return n, nil
		}
	}},
	{"says that Close failed", plain, []string{"caps"}, func(d *shim) {
		d.closeDevice = func(inner backend.Device) error { return errors.Join(inner.Close(), errors.New("no")) }
	}},
}

// tardy hides a byte that has just been written until the next poll.
func tardy(d *shim) {
	last := map[*shimRegion][]byte{}
	var restore func()
	d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
		if restore != nil {
			restore()
			restore = nil
		}
		n, err := cq.CQ.Poll(now, dst)
		for _, r := range d.registered() {
			mem := r.Bytes()
			for i, old := range last[r] {
				if mem[i] != old && restore == nil {
					value := mem[i]
					restore = func() { mem[i] = value }
					defer func() { mem[i]++ }()
				}
			}
			last[r] = append(last[r][:0], mem...)
		}
		return n, err
	}
}

// lateByte writes into the memory of a message when its fence is down.
func lateByte(d *shim) {
	var late [][]byte
	d.revoked = func(t *shimTable, n uint64) bool {
		if !t.Table.Revoked(n) {
			return false
		}
		if mem := t.old[n]; len(mem) > 0 {
			late = append(late, mem)
			delete(t.old, n)
		}
		return true
	}
	d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
		for _, mem := range late {
			mem[len(mem)-1]++
		}
		late = nil
		return cq.CQ.Poll(now, dst)
	}
}

// premature reports a send when it is posted.
func premature(d *shim) {
	d.postWrites = func(q *shimQP, now units.Instant, w []backend.Write) (int, error) {
		quiet := append([]backend.Write(nil), w...)
		for i := range quiet {
			quiet[i].Signaled = false
		}
		n, err := q.QP.PostWrites(now, quiet)
		cq := q.cfg.SendCQ.(*shimCQ)
		for _, x := range w[:n] {
			if x.Signaled {
				cq.saved = append(cq.saved, backend.Completion{Kind: backend.KindSent, WRID: x.WRID, Cookie: q.cfg.Cookie})
			}
		}
		return n, err
	}
	d.poll = func(cq *shimCQ, now units.Instant, dst []backend.Completion) (int, error) {
		k := copy(dst, cq.saved)
		cq.saved = cq.saved[k:]
		n, err := cq.CQ.Poll(now, dst[k:])
		return n + k, err
	}
}

// Every broken device fails the cases that are there to find it out, and not by a skip or a panic of theirs.
func TestBrokenDevicesFail(t *testing.T) {
	for _, b := range broken {
		for _, name := range b.cases {
			t.Run(b.name+"/"+name, func(t *testing.T) { mustFail(t, name, simMaker(b.cfg, b.spoil)) })
		}
	}
}

func mustFail(t *testing.T, name string, mk backendtest.Maker) {
	t.Helper()
	f := &fakeTB{name: name}
	f.run(findCase(t, name), mk)
	require.True(t, f.failed, "the suite passes it")
	require.NotContains(t, f.text(), "panic:")
	t.Log(f.text())
}
