// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A puppet is a driver that does what a program says, one thing each time that it has one.
type puppet struct {
	program  *program
	src, dst *sdr.MR
	arrivals *sdr.Arrivals
	posted   int
	recvs    []puppetRecv // not completed
	sends    []sdr.SendStream
	grants   []sdr.Event // also those that are used up
	failed   int
}

type puppetRecv struct {
	sdr.RecvHandle
	at    units.Bytes // in dst
	short bool
}

// puppetRecvs is for how many receives dst has room.
const puppetRecvs = 32

func (d *puppet) Progress(p *sdr.Port) units.Instant {
	for _, e := range p.Events {
		if e.Kind == sdr.EventGrant {
			d.grants = append(d.grants, e)
		}
	}
	if in := d.program; in != nil {
		d.program = nil
		d.act(p, in)
	}
	return units.Never
}

func (d *puppet) Failed(error) { d.failed++ }

// act does one thing. What is to be sent again, ended or completed may be so already.
func (d *puppet) act(p *sdr.Port, in *program) {
	op, pick := in.byte(), int(in.byte())
	switch what := op & 15; {
	case what < 3:
		d.postRecv(p, op, in)
	case what < 7 && len(d.grants) > 0:
		d.useGrant(p, d.grants[pick%len(d.grants)], op, in)
	case what < 10 && len(d.sends) > 0:
		d.inject(p, d.sends[pick%len(d.sends)], op, in)
	case what == 10 && len(d.sends) > 0:
		p.End(d.sends[pick%len(d.sends)])
	case what < 14 && len(d.recvs) > 0:
		d.touchRecv(p, pick%len(d.recvs), op, in)
	default:
		say(p, op, pick, int(in.byte()))
	}
}

func (d *puppet) postRecv(p *sdr.Port, op byte, in *program) {
	at := units.Bytes(d.posted%puppetRecvs) * hostileBuffer
	if slices.ContainsFunc(d.recvs, func(r puppetRecv) bool { return r.at == at }) {
		d.posted++
		return
	}
	o := sdr.RecvOptions{Label: sdr.Label{Role: sdr.RoleData}, Mark: uint32(op), Unit: units.Bytes(in.byte()%4) * small.MTU, Short: op&0x10 != 0}
	if op&0x20 != 0 {
		o.Arrivals = d.arrivals
	}
	if op&0x40 != 0 {
		o.Label = sdr.Label{Transfer: uint64(in.byte()), Role: sdr.RoleParity, Index: uint32(d.posted)}
	}
	length := units.Bytes(hostileBuffer)
	if op&0x80 != 0 {
		length = units.Bytes(in.byte()) * 48
	}
	if r, err := p.PostRecv(d.dst, at, length, o); err == nil {
		clear(d.dst.Bytes()[at : at+hostileBuffer])
		d.recvs = append(d.recvs, puppetRecv{r, at, o.Short})
		d.posted++
	}
}

func (d *puppet) useGrant(p *sdr.Port, g sdr.Event, op byte, in *program) {
	if op&15 == 6 {
		p.EndGranted(g.Seq)
		return
	}
	n := min(g.Length, hostileBuffer)
	if op&0x80 != 0 {
		n = units.Bytes(in.byte()) * 48
	}
	if s, err := p.OpenGranted(g.Seq, d.src, 0, n); err == nil {
		d.sends = append(d.sends, s)
	}
}

func (d *puppet) inject(p *sdr.Port, s sdr.SendStream, op byte, in *program) {
	first, n, channel := int(int8(in.byte())), int(in.byte()%16), int(in.byte())%(small.Channels+1)
	switch op >> 6 {
	case 0:
		p.Inject(s, first, n, channel)
	case 1:
		p.Repeat(s, int(in.byte()), first, units.Bytes(n)*small.MTU, channel)
	case 2:
		p.Probe(s, channel, first)
	default:
		p.Inject(s, first, n, p.HomeChannel(s, max(0, first)))
	}
}

// touchRecv completes a receive, gives it a length, or puts packets in place.
func (d *puppet) touchRecv(p *sdr.Port, i int, op byte, in *program) {
	r := d.recvs[i]
	switch op & 15 {
	case 11:
		p.Complete(r.RecvHandle)
		d.recvs = slices.Delete(d.recvs, i, i+1)
	case 12:
		p.SetLength(r.RecvHandle, units.Bytes(in.byte())*52)
	default:
		first, n := int(int8(in.byte())), int(int8(in.byte()))
		if from, to := units.Bytes(first)*small.MTU, units.Bytes(first+n)*small.MTU; first >= 0 && n >= 0 && to <= hostileBuffer {
			copy(d.dst.Bytes()[r.at+from:r.at+to], d.src.Bytes()[from:to]) // the bytes have to be there first
		}
		_ = p.Place(r.RecvHandle, first, n)
	}
}

// say says something to the peer's driver.
func say(p *sdr.Port, op byte, transfer, n int) {
	switch op >> 6 {
	case 0:
		p.Announce(uint64(transfer), units.Bytes(n), 1, true, make([]byte, n%(sdr.MaxParams+1)))
	case 1:
		p.Abort(uint64(transfer), uint8(n))
	case 2:
		p.SendScheme(uint64(transfer), n&1 != 0, uint64(n), make([]byte, min(3*n, p.MaxScheme())))
	default:
		_ = p.SendReliable(uint64(transfer), n&1 != 0, make([]byte, 3*n))
	}
}

// FuzzDriver is FuzzControl for queue pairs with drivers, which use their Ports at random. Memory is the driver's again when all is closed.
func FuzzDriver(f *testing.F) {
	for seed := range uint64(8) {
		b := make([]byte, 600)
		_, _ = rand.NewChaCha8([32]byte{byte(seed), 9}).Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, d := newPuppets(t)
		in := program(b[:min(len(b), 3000)])
		for len(in) > 0 {
			switch op := in.byte(); op % 8 {
			case 0, 1:
				h.forgeFrames(op, &in)
			case 7:
				h.rest(units.Duration(op>>3) * 30 * units.Microsecond)
			default:
				side := int(op >> 3 & 1)
				d[side].program = &in
				h.qp[side].Kick()
				h.ctx[side].Progress(h.net.Now())
				d[side].program = nil
			}
			h.checkPuppets(d)
		}
		h.rest(20 * ms)
		h.checkPuppets(d)
		for i := range 2 {
			require.NoError(t, h.qp[i].Close())
			require.Equal(t, 1, d[i].failed)
			require.NoError(t, h.qp[i].Check())
			require.Zero(t, d[i].src.Refs()+d[i].dst.Refs())
		}
	})
}

func newPuppets(t testing.TB) (*hostile, [2]*puppet) {
	h := &hostile{pair: newUnconnected(t, link(), small)}
	var d [2]*puppet
	for i := range 2 {
		d[i] = &puppet{arrivals: sdr.NewArrivals(small.Channels), src: h.mr(i, hostileBuffer, true), dst: h.mr(i, puppetRecvs*hostileBuffer, false)}
	}
	h.drive(small, d[0], d[1])
	return h, d
}

func (h *hostile) checkPuppets(d [2]*puppet) {
	for i, q := range h.qp {
		h.checkHeld(q)
		n := q.Held()
		require.LessOrEqual(h.t, n.Events, sdr.MaxEvents+small.Split.Slots())
		require.LessOrEqual(h.t, n.Arena, sdr.MaxArena)
		require.LessOrEqual(h.t, n.Reliable, sdr.MaxReliable)
		require.LessOrEqual(h.t, n.ReliableBytes, sdr.MaxReliableBytes)
		for _, r := range d[i].recvs {
			if r.Bitmap().Err() == nil && !r.short { // of a short packet the bytes behind are nobody's
				checkBits(h.t, r.RecvHandle, d[1-i].src.Bytes(), d[i].dst.Bytes()[r.at:])
			}
		}
	}
}
