// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/internal/cqtest"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A trimmingCQ reports writes as cut that a test makes up.
type trimmingCQ struct {
	backend.CQ
	forged *[]backend.Completion
}

func (q *trimmingCQ) Poll(now units.Instant, dst []backend.Completion) (int, error) {
	n := copy(dst, *q.forged)
	*q.forged = (*q.forged)[n:]
	m, err := q.CQ.Poll(now, dst[n:])
	return n + m, err
}

// A trimmedDriver opens what is granted, and keeps what is reported as cut.
type trimmedDriver struct {
	src     *sdr.MR
	post    *sdr.MR
	open    sdr.Event
	trimmed []sdr.Event
}

func (d *trimmedDriver) Progress(p *sdr.Port) units.Instant {
	if d.post != nil {
		_, _ = p.PostRecv(d.post, 0, d.post.Len(), sdr.RecvOptions{})
		d.post = nil
	}
	for _, e := range p.Events {
		switch e.Kind {
		case sdr.EventGrant:
			d.open = e
			_, _ = p.OpenGranted(e.Seq, d.src, 0, d.src.Len())
		case sdr.EventTrimmed:
			d.trimmed = append(d.trimmed, e)
		}
	}
	return units.Never
}

func (d *trimmedDriver) Failed(error) {}

// TestForgedTrimmed: a report that a write was cut counts if slot, generation, address and length are those of a packet of a message that
// is open, because anybody can forge one.
func TestForgedTrimmed(t *testing.T) {
	var forged []backend.Completion
	p := newWrapped(t, link(), small, func(end int, d backend.Device) backend.Device {
		if end == 1 {
			return d
		}
		return cqtest.Wrap(d, func(q backend.CQ) backend.CQ { return &trimmingCQ{q, &forged} })
	})
	const length = 5*1024 + 100
	src, dst := p.mr(0, length, true), p.mr(1, length, false)
	d := [2]*trimmedDriver{{src: src}, {src: src}}
	p.drive(small, d[0], d[1])
	d[1].post = dst
	p.qp[1].Kick()
	p.until(units.Second, func() bool { return d[0].open.Seq == 1 })

	// Of the queue pairs that each end makes, those of the second connection come after 4 generations of 2 channels, and the cookies in the
	// same order, from 1 on.
	first := uint32(1 + small.Channels*p.qp[0].Config().Generations)
	good := func(packet int) backend.Completion {
		off := units.Bytes(packet) * small.MTU
		return backend.Completion{
			Kind: backend.KindTrimmed, Cookie: first, Imm: small.Split.Imm(1, packet, 3), Len: uint32(min(small.MTU, length-off)),
			WRID: uint64(small.MaxMessage + off),
		}
	}
	report := func(c backend.Completion) int {
		forged = append(forged, c)
		before := len(d[0].trimmed)
		p.run(100 * units.Microsecond)
		return len(d[0].trimmed) - before
	}
	for packet := range 6 {
		require.Equal(t, 1, report(good(packet)), "packet %d", packet)
		e := d[0].trimmed[packet]
		require.Equal(t, sdr.Event{Kind: sdr.EventTrimmed, Seq: 1, Packet: packet, Number: 3}, e)
	}
	for name, forge := range map[string]func(*backend.Completion){
		"another slot":       func(c *backend.Completion) { c.Imm = small.Split.Imm(2, 0, 3) },
		"another packet":     func(c *backend.Completion) { c.Imm = small.Split.Imm(1, 1, 3) },
		"no packet":          func(c *backend.Completion) { c.Imm, c.WRID = small.Split.Imm(1, 6, 3), c.WRID+6*1024 },
		"another generation": func(c *backend.Completion) { c.Cookie += uint32(small.Channels) },
		"another address":    func(c *backend.Completion) { c.WRID++ },
		"another message":    func(c *backend.Completion) { c.WRID += uint64(16 * small.MaxMessage) },
		"another length":     func(c *backend.Completion) { c.Len-- },
		"no queue pair":      func(c *backend.Completion) { c.Cookie = 1000 },
	} {
		c := good(0)
		forge(&c)
		require.Zero(t, report(c), name)
	}
	require.EqualValues(t, 6, p.qp[0].Stats().Trimmed)
}
