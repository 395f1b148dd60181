// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	// The first transfers of a connection, as many and with as many units, warm it up. A sample of the grid (-scale)
	// does with leastWarm of them where they have the units.
	warmTransfers = 20
	leastWarm     = 4
	warmUnits     = 100_000
	// stepLimit is how long in virtual time one step may take.
	stepLimit = 600 * units.Second
	// settleRTTs is how long a receive is posted before its send, in round
	// trips: its CTS, which may be lost, is repeated after 1, 3 and 7.
	settleRTTs = 8
	// maxStuck is how many steps may pass without time passing.
	maxStuck = 1_000_000
)

// A pair is two connected ends on one link.
type pair struct {
	net  *sim.Network
	ctx  [2]*sdr.Endpoint
	conn [2]*reliability.Conn
}

func (p *point) connect() (*pair, error) {
	pr := &pair{}
	var err error
	if pr.net, err = sim.New(p.link()); err != nil {
		return nil, err
	}
	for i, dev := range []*sim.Device{pr.net.A(), pr.net.B()} {
		key := [32]byte{byte(p.seed), byte(i)}
		if pr.ctx[i], err = sdr.NewEndpoint(dev, sdr.EndpointConfig{Rand: rand.NewChaCha8(key)}); err != nil {
			return nil, err
		}
		s, err := schemes.New(p.scheme, schemes.Params{})
		if err != nil {
			return nil, err
		}
		qp := sdr.QPConfig{MTU: p.mtu, Chunk: p.chunk, Channels: p.channels}
		// The figures recorded are the search's, whatever the default is.
		cfg := reliability.Config{Scheme: s, Rate: p.paced(), Congestion: congestion.Spec{Name: "search"}}
		if pr.conn[i], err = reliability.NewConn(pr.ctx[i], qp, cfg); err != nil {
			return nil, err
		}
	}
	for i := range pr.conn {
		if err := pr.conn[i].StartConnect(pr.conn[1-i].Info()); err != nil {
			return nil, err
		}
	}
	return pr, pr.until(func() (bool, error) {
		a, err := pr.conn[0].Connected()
		if err != nil {
			return false, err
		}
		b, err := pr.conn[1].Connected()
		return a && b, err
	})
}

// step runs both ends and moves the clock to the next event, at most to limit.
func (pr *pair) step(limit units.Instant) {
	now := pr.net.Now()
	soonest := limit
	for _, c := range pr.ctx {
		soonest = min(soonest, c.Progress(now))
	}
	pr.net.Advance(max(min(soonest, pr.net.Next()), now))
}

func (pr *pair) until(done func() (bool, error)) error {
	limit := pr.net.Now().Add(stepLimit)
	for stuck := 0; ; {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		before := pr.net.Now()
		pr.step(limit)
		if stuck++; pr.net.Now() != before {
			stuck = 0
		}
		if stuck > maxStuck || pr.net.Now() >= limit {
			return fmt.Errorf("no end after %s of virtual time", units.FormatDuration(stepLimit))
		}
	}
}

func (pr *pair) run(d units.Duration) {
	for limit := pr.net.Now().Add(d); pr.net.Now() < limit; {
		pr.step(limit)
	}
}

func (pr *pair) finish(t *reliability.Transfer) error {
	return pr.until(func() (bool, error) {
		select {
		case <-t.Done():
			return true, t.Err()
		default:
			return false, nil
		}
	})
}

// measure runs the transfers of a point, over one connection or, cold, one each.
func (p *point) measure() (*gridResult, error) {
	if p.cold {
		return p.measureCold()
	}
	pr, err := p.connect()
	if err != nil {
		return nil, err
	}
	defer pr.close()
	warm := max(p.size, units.Bytes(warmUnits/warmTransfers)*p.mtu)
	m, err := pr.mover(warm, p)
	if err != nil {
		return nil, err
	}
	for range p.warmups {
		if _, err := m.move(warm); err != nil {
			return nil, err
		}
	}
	before := pr.counts()
	times := make([]units.Duration, p.transfers)
	for i := range times {
		if times[i], err = m.move(p.size); err != nil {
			return nil, err
		}
	}
	return p.result(times, pr.counts().minus(before)), nil
}

// measureCold connects anew for each transfer, to another network each time.
func (p *point) measureCold() (*gridResult, error) {
	times := make([]units.Duration, p.transfers)
	var sum counts
	for i := range times {
		q := *p
		q.seed = p.seed<<16 + uint64(i)
		pr, err := q.connect()
		if err != nil {
			return nil, err
		}
		m, err := pr.mover(p.size, p)
		if err == nil {
			times[i], err = m.move(p.size)
		}
		sum = pr.counts().plus(sum)
		pr.close()
		if err != nil {
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return p.result(times, sum), nil
}

func (pr *pair) close() {
	for _, c := range pr.ctx {
		_ = c.Close()
	}
}

// counts are what the table shows of both ends, and what the last transfer chose.
type counts struct {
	sent, repeated, spurious, parity, recovered, timeouts, fallbacks uint64

	channels, k, m int
	explain        string
}

func (pr *pair) counts() counts {
	s, r := pr.conn[0].Stats().Units, pr.conn[1].Stats().Units
	return counts{
		s.Sent, s.Retransmitted, s.Spurious, s.Parity, r.Recovered, s.Timeouts, s.Fallbacks + r.Fallbacks,
		pr.conn[0].QP().Config().Channels, s.K, s.M, s.Explain,
	}
}

// plus adds what came before to c.
func (c counts) plus(o counts) counts {
	c.sent, c.repeated, c.spurious, c.parity = c.sent+o.sent, c.repeated+o.repeated, c.spurious+o.spurious, c.parity+o.parity
	c.recovered, c.timeouts, c.fallbacks = c.recovered+o.recovered, c.timeouts+o.timeouts, c.fallbacks+o.fallbacks
	return c
}

// minus takes what came before from c.
func (c counts) minus(o counts) counts {
	c.sent, c.repeated, c.spurious, c.parity = c.sent-o.sent, c.repeated-o.repeated, c.spurious-o.spurious, c.parity-o.parity
	c.recovered, c.timeouts, c.fallbacks = c.recovered-o.recovered, c.timeouts-o.timeouts, c.fallbacks-o.fallbacks
	return c
}

// A mover moves transfers one by one.
type mover struct {
	*pair
	src, dst *sdr.MR
	settle   units.Duration
}

// mover registers memory for transfers of up to n bytes.
func (pr *pair) mover(n units.Bytes, p *point) (*mover, error) {
	src, err := pr.ctx[0].RegisterSize(n, 0)
	if err != nil {
		return nil, err
	}
	dst, err := pr.ctx[1].RegisterSize(n, sdr.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	return &mover{pr, src, dst, settleRTTs * p.rtt}, nil
}

func (m *mover) move(n units.Bytes) (units.Duration, error) {
	r, err := m.conn[1].StartRecv(m.dst, 0, n)
	if err != nil {
		return 0, err
	}
	m.run(m.settle) // until its CTS has arrived
	begun := m.net.Now()
	s, err := m.conn[0].StartSend(m.src, 0, n, reliability.SendOptions{})
	if err != nil {
		return 0, err
	}
	if err := m.finish(s); err != nil {
		return 0, err
	}
	took := m.net.Now().Sub(begun)
	return took, m.finish(r)
}
