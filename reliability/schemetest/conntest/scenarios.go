// SPDX-License-Identifier: Apache-2.0

package conntest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const ms = units.Millisecond

// A scenario is a family of runs: prepare describes the network, play uses it.
type scenario struct {
	name    string
	prepare func(s *setup, rng *rand.Rand)
	play    func(w *world) error
}

// pick returns one of its arguments.
func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// basis is a mild link.
func basis(rng *rand.Rand) setup {
	rate := pick(rng, 100*units.Mbit, units.Gbit)
	return setup{
		net: sim.Config{Rate: rate, Link: sim.Link{
			Delay: pick(rng, ms/2, 5*ms), Loss: sim.Loss{Drop: pick(rng, 0, 0.001, 0.02)},
		}},
		qp:   sdr.QPConfig{MTU: mtu, Chunk: 4 * mtu, Channels: pick(rng, 1, 2, 4), Silence: silence, ConnectTimeout: silence},
		conn: reliability.Config{Rate: rate / 10 * 9},
	}
}

// burst is loss in bursts of a mean length. With one seed the loss is the same whatever the length.
func burst(mean float64) func(*setup, *rand.Rand) {
	return func(s *setup, rng *rand.Rand) {
		s.net.Link.Loss = sim.Loss{Drop: pick(rng, 0.005, 0.05), Burst: mean}
		s.net.ControlLoss = &sim.Loss{Drop: 0.05}
	}
}

var scenarios = []scenario{
	{"independent loss", func(s *setup, rng *rand.Rand) { s.net.Link.Loss.Drop = pick(rng, 0.001, 0.01, 0.1, 0.3) }, several},
	{"bursts of mean 4", burst(4), several},
	{"bursts of mean 16", burst(16), several},
	{"bursts of mean 64", burst(64), several},
	{"half of the control frames lost", func(s *setup, _ *rand.Rand) { s.net.ControlLoss = &sim.Loss{Drop: 0.5} }, several},
	{"only the way back is lossy", func(s *setup, rng *rand.Rand) {
		s.net.Link.Loss = sim.Loss{}
		back := s.net.Link
		back.Loss.Drop = pick(rng, 0.1, 0.5)
		s.net.Back = &back
	}, several},
	{"reordered, repeated, damaged", func(s *setup, rng *rand.Rand) {
		l := &s.net.Link
		l.Reorder, l.ReorderDelay, l.Duplicate, l.Corrupt = 0.1, pick(rng, l.Delay/10, 2*l.Delay), 0.05, 0.02
		l.ChannelDelay = []units.Duration{0, l.Delay, l.Delay / 3}
	}, several},
	{"a step in p", nil, func(w *world) error {
		return w.change(func(l *sim.Link) { l.Loss.Drop = pick(w.rng, 0, 0.3) })
	}},
	{"delay jumps", nil, func(w *world) error {
		return w.change(func(l *sim.Link) { l.Delay *= pick[units.Duration](w.rng, 2, 10, 50) })
	}},
	{"blackout of 10 s", nil, blackout},
	{"bottleneck", func(s *setup, rng *rand.Rand) {
		s.net.Link.Rate = s.net.Rate / 10 * pick[units.Rate](rng, 5, 8)
		s.net.Link.Queue = pick(rng, 16*units.KiB, 256*units.KiB)
	}, several},
	{"64 transfers both ways at once", nil, together},
	{"buffers come late", nil, late},
	{"transfers span slots", func(s *setup, rng *rand.Rand) {
		s.qp.MaxMessage = 16 * units.KiB
		s.qp.Split = sdr.Split{SlotBits: 4, OffsetBits: 24, FragmentBits: 4}
		s.conn.Window = 1 + rng.IntN(8)
		s.conn.ParityPool = pick(rng, 16*units.KiB, units.MiB)
	}, several},
	{"the sender gives up", nil, func(w *world) error { return w.giveUp(true) }},
	{"the receiver gives up", nil, func(w *world) error { return w.giveUp(false) }},
	{"an end closes", nil, closes},
	{"a peer restarts", nil, restarts},
}

// several moves transfers of odd lengths one after the other.
func several(w *world) error {
	for range 3 {
		n := 1 + w.rng.IntN(pick(w.rng, 3, 5000, 300_000))
		m, err := w.begin(w.rng.IntN(2), n, n+w.rng.IntN(5000))
		if err != nil {
			return err
		}
		if err := w.finish(m); err != nil {
			return fmt.Errorf("%d bytes: %w", n, err)
		}
	}
	return nil
}

// underway begins a transfer that takes some time and lets part of it pass.
func (w *world) underway() (*move, units.Duration, error) {
	n := 100_000 + w.rng.IntN(400_000)
	m, err := w.begin(0, n, n)
	if err != nil {
		return nil, 0, err
	}
	ideal := w.setup.net.Rate.Time(units.Bytes(n)) + 2*w.setup.net.Link.Delay
	w.run(units.Duration(w.rng.Int64N(int64(ideal))))
	return m, ideal, nil
}

// change changes the link during a transfer.
func (w *world) change(how func(*sim.Link)) error {
	m, _, err := w.underway()
	if err != nil {
		return err
	}
	l := w.setup.net.Link
	how(&l)
	for _, d := range []sim.Direction{sim.AtoB, sim.BtoA} {
		if err := w.net.SetLink(d, l); err != nil {
			return err
		}
	}
	return errors.Join(w.finish(m), several(w))
}

func blackout(w *world) error {
	m, ideal, err := w.underway()
	if err != nil {
		return err
	}
	w.fate = func(sim.PacketInfo) sim.Verdict { return sim.Drop }
	w.run(10 * units.Second)
	w.fate = nil
	// The transfer goes on within seconds: packets that are sent to find out whether it can may be a second apart.
	w.limit = w.net.Now().Add(5*units.Second + 50*ideal)
	if err := w.finish(m); err != nil {
		return err
	}
	w.limit = w.net.Now().Add(runLimit)
	return several(w)
}

func together(w *world) error {
	var all []*move
	for i := range 64 {
		n := w.rng.IntN(20_000)
		m, err := w.begin(i%2, n, n+10)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	return w.finish(all...)
}

func late(w *world) error {
	var all []*move
	for range 4 {
		n := 1 + w.rng.IntN(50_000)
		m, err := w.prepare(0, n, n+100)
		if err != nil {
			return err
		}
		if err := m.start(0); err != nil {
			return err
		}
		all = append(all, m)
	}
	for _, m := range all {
		w.run(units.Duration(w.rng.Int64N(int64(units.Second))))
		if err := m.post(0); err != nil {
			return err
		}
	}
	return w.finish(all...)
}

// outcome waits until both halves of m have ended and checks that each ended well or
// with one of the errors.
func (w *world) outcome(m *move, send, recv []error) error {
	err := w.until(func() (bool, error) { return m.finished(), nil })
	if err != nil {
		return err
	}
	for _, x := range []struct {
		half string
		got  error
		want []error
	}{{"send", m.send.Err(), send}, {"receive", m.recv.Err(), recv}} {
		ok := x.got == nil
		for _, e := range x.want {
			ok = ok || errors.Is(x.got, e)
		}
		if !ok {
			return fmt.Errorf("%s ended with %w", x.half, x.got)
		}
	}
	if m.recv.Err() == nil {
		return m.content()
	}
	return m.untouched()
}

var errEnough = errors.New("enough")

// giveUp cancels a transfer; its memory is free and the connection goes on.
func (w *world) giveUp(sender bool) error {
	m, _, err := w.underway()
	if err != nil {
		return err
	}
	if sender {
		m.send.Cancel(errEnough)
		err = w.outcome(m, []error{errEnough}, []error{sdr.ErrAborted})
	} else {
		m.recv.Cancel(errEnough)
		err = w.outcome(m, []error{sdr.ErrCompleted}, []error{errEnough})
	}
	return errors.Join(err, m.from.Close(), m.to.Close(), several(w))
}

// closes closes one side in the middle of a transfer; the other learns it from the
// silence.
func closes(w *world) error {
	m, _, err := w.underway()
	if err != nil {
		return err
	}
	side := w.rng.IntN(2)
	if err := w.ctx[side].Close(); err != nil {
		return err
	}
	gone := []error{sdr.ErrClosed, sdr.ErrPeerDead, sdr.ErrNoProgress}
	return w.outcome(m, gone, gone)
}

// restarts replaces one side. The other's transfer fails in time, both connect again,
// and what is still in flight to the replaced side changes nothing.
func restarts(w *world) error {
	m, _, err := w.underway()
	if err != nil {
		return err
	}
	var held int
	w.fate = func(p sim.PacketInfo) sim.Verdict { // so that some packets arrive when the side is back
		if p.Kind == backend.KindWrite && held < 20 {
			held++
			return sim.Hold(silence + units.Second)
		}
		return sim.Deliver
	}
	w.run(2 * ms)
	w.fate = nil
	side := w.rng.IntN(2)
	if err := w.ctx[side].Close(); err != nil {
		return err
	}
	gone := []error{sdr.ErrClosed, sdr.ErrPeerDead, sdr.ErrNoProgress}
	if err := w.outcome(m, gone, gone); err != nil {
		return err
	}
	before := string(m.dst)
	if err := w.open(side); err != nil {
		return err
	}
	// The side that stayed makes a new connection on its context.
	other := 1 - side
	cfg := w.setup.conn
	cfg.Scheme = w.make()
	if w.conn[other], err = reliability.NewConn(w.ctx[other], w.qp, cfg); err != nil {
		return err
	}
	w.limit = w.net.Now().Add(runLimit)
	if err := errors.Join(w.connect(), several(w)); err != nil {
		return err
	}
	w.run(2 * silence)
	if string(m.dst) != before {
		return errors.New("a late packet changed a buffer of before the restart")
	}
	return several(w)
}
