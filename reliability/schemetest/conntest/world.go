// SPDX-License-Identifier: Apache-2.0

package conntest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

const (
	mtu = units.Bytes(1024)
	// guard is how many bytes around each buffer must not change.
	guard = 256
	// runLimit is how long a run may take in virtual time.
	runLimit = 120 * units.Second
	// silence is after how long without a word a peer counts as dead: longer
	// than the blackout.
	silence = 20 * units.Second
)

// A setup is what a scenario wants.
type setup struct {
	net  sim.Config
	qp   sdr.QPConfig
	conn reliability.Config
}

// A world is two sides and the network between them.
type world struct {
	setup
	seed  uint64
	rng   *rand.Rand
	make  func() scheme.Scheme
	lossy bool // the scheme may leave units out
	net   *sim.Network
	ctx   [2]*sdr.Endpoint
	conn  [2]*reliability.Conn
	limit units.Instant
	// fate, if set, decides about packets.
	fate func(sim.PacketInfo) sim.Verdict
	sum  digest
	made int
}

func newWorld(s setup, seed uint64, rng *rand.Rand, makeScheme func() scheme.Scheme) (*world, error) {
	w := &world{setup: s, seed: seed, rng: rng, make: makeScheme, limit: units.Instant(runLimit)}
	w.setup.net.Seed = seed
	var err error
	if w.net, err = sim.New(w.setup.net); err != nil {
		return nil, err
	}
	w.net.SetFilter(func(p sim.PacketInfo) sim.Verdict {
		w.sum.add(uint64(w.net.Now()), uint64(p.Direction), uint64(p.Kind), uint64(p.Channel), uint64(p.Imm), uint64(p.Length))
		if w.fate != nil {
			return w.fate(p)
		}
		return sim.Deliver
	})
	for i := range 2 {
		if err := w.open(i); err != nil {
			return nil, err
		}
	}
	return w, w.connect()
}

// open makes side i, or makes it anew.
func (w *world) open(i int) (err error) {
	w.made++
	dev := []*sim.Device{w.net.A(), w.net.B()}[i]
	key := [32]byte{byte(w.seed), byte(w.seed >> 8), byte(i), byte(w.made)}
	if w.ctx[i], err = sdr.NewEndpoint(keepOpen{dev}, sdr.EndpointConfig{Rand: rand.NewChaCha8(key)}); err != nil {
		return err
	}
	cfg := w.setup.conn
	cfg.Scheme = w.make()
	_, w.lossy = cfg.Scheme.(scheme.Partial)
	w.conn[i], err = reliability.NewConn(w.ctx[i], w.qp, cfg)
	return err
}

// keepOpen is a device that outlives its contexts, as a NIC does a process.
type keepOpen struct{ *sim.Device }

func (keepOpen) Close() error { return nil }

func (w *world) connect() error {
	for i := range 2 {
		if err := w.conn[i].StartConnect(w.conn[1-i].Info()); err != nil {
			return err
		}
	}
	return w.until(func() (bool, error) {
		a, errA := w.conn[0].Connected()
		b, errB := w.conn[1].Connected()
		return a && b, errors.Join(errA, errB)
	})
}

func (w *world) close() error {
	return errors.Join(w.ctx[0].Close(), w.ctx[1].Close())
}

// step runs both sides and moves the clock to the next event, at most to limit.
func (w *world) step(limit units.Instant) { w.net.Advance(w.progress(limit)) }

// progress runs both sides and returns when the next event is, at most limit.
func (w *world) progress(limit units.Instant) units.Instant {
	now := w.net.Now()
	next := min(limit, w.ctx[0].Progress(now), w.ctx[1].Progress(now), w.net.Next())
	return max(next, now)
}

// until runs the world until done.
func (w *world) until(done func() (bool, error)) error {
	for stuck := 0; ; stuck++ {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		before := w.net.Now()
		next := w.progress(w.limit)
		if ok, err := done(); ok || err != nil {
			return err // with nothing more to come: the clock must not run to Never
		}
		w.net.Advance(next)
		if w.net.Now() > before {
			stuck = 0
		}
		if stuck > 100_000 || w.net.Now() >= w.limit {
			return fmt.Errorf("no end at %v", units.Duration(w.net.Now()))
		}
	}
}

// run lets d of virtual time pass.
func (w *world) run(d units.Duration) {
	for limit := w.net.Now().Add(d); w.net.Now() < limit; {
		w.step(limit)
	}
}

// A move is a transfer of content.
type move struct {
	w          *world
	n, buffer  int
	src, dst   []byte
	from, to   *sdr.MR
	send, recv *reliability.Transfer
}

// prepare makes the buffers of a transfer of n bytes from a side.
func (w *world) prepare(side, n, buffer int) (*move, error) {
	m := &move{w: w, n: n, buffer: buffer, src: make([]byte, n+1), dst: bytes.Repeat([]byte{0xa5}, buffer+2*guard)}
	_, _ = rand.NewChaCha8([32]byte{byte(w.seed), byte(n), byte(n >> 8), byte(side)}).Read(m.src)
	for i, b := range m.src {
		if b == 0xa5 {
			m.src[i] = 0 // so that what never arrived differs
		}
	}
	var err error
	if m.from, err = w.ctx[side].RegisterMemory(m.src, 0); err != nil {
		return nil, err
	}
	m.to, err = w.ctx[1-side].RegisterMemory(m.dst, sdr.AccessRemoteWrite)
	return m, err
}

func (m *move) post(side int) (err error) {
	m.recv, err = m.w.conn[1-side].StartRecv(m.to, guard, units.Bytes(m.buffer))
	return err
}

func (m *move) start(side int) (err error) {
	m.send, err = m.w.conn[side].StartSend(m.from, 0, units.Bytes(m.n), reliability.SendOptions{})
	return err
}

// begin posts and starts a transfer.
func (w *world) begin(side, n, buffer int) (*move, error) {
	m, err := w.prepare(side, n, buffer)
	if err != nil {
		return nil, err
	}
	return m, errors.Join(m.post(side), m.start(side))
}

func (m *move) finished() bool { return finished(m.send) && finished(m.recv) }

func finished(t *reliability.Transfer) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// finish waits for transfers and checks them.
func (w *world) finish(moves ...*move) error {
	err := w.until(func() (bool, error) {
		for _, m := range moves {
			if !m.finished() {
				return false, nil
			}
		}
		return true, nil
	})
	for _, m := range moves {
		err = errors.Join(err, m.check())
	}
	return err
}

// check checks a transfer that has ended.
func (m *move) check() error {
	if err := errors.Join(m.send.Err(), m.recv.Err()); err != nil {
		return err
	}
	return m.content()
}

// content checks what was received.
func (m *move) content() error {
	if got := int(m.recv.Length()); got != m.n {
		return fmt.Errorf("%d bytes were received, %d sent", got, m.n)
	}
	missing := 0
	for at := 0; at < m.n; at += int(mtu) {
		to := min(at+int(mtu), m.n)
		if !bytes.Equal(m.src[at:to], m.dst[guard+at:guard+to]) {
			missing++
		}
	}
	if missing != m.recv.Result().Missing || missing > 0 && !m.w.lossy {
		return fmt.Errorf("%d units are not what was sent, %d are said to be missing", missing, m.recv.Result().Missing)
	}
	return m.untouched()
}

// untouched checks the bytes around what was received.
func (m *move) untouched() error {
	for i, b := range m.dst {
		if (i < guard || i >= guard+m.n) && b != 0xa5 {
			return fmt.Errorf("byte %d beside the transfer was written", i-guard)
		}
	}
	return nil
}

// A digest is an FNV-1a hash.
type digest uint64

func (d *digest) add(values ...uint64) {
	if *d == 0 {
		*d = 14695981039346656037
	}
	for _, v := range values {
		for range 8 {
			*d = (*d ^ digest(v&0xff)) * 1099511628211
			v >>= 8
		}
	}
}
