// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/backend/softroce"
	"github.com/sdr-rdma/go-sdr/backend/userroce"
	"github.com/sdr-rdma/go-sdr/internal/netnstest"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// schemes are all that the module has, with their defaults and the paper's code.
var schemes = map[string]func() (scheme.Scheme, error){
	"adaptive": func() (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) },
	"ec-mds":   func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.MDS, K: 32, M: 8}) },
	"ec-xor":   func() (scheme.Scheme, error) { return ec.New(ec.Config{Code: ec.XOR, K: 32, M: 8}) },
	"none":     func() (scheme.Scheme, error) { return none.New(), nil },
	"sr":       func() (scheme.Scheme, error) { return sr.New(sr.Config{}) },
	"sr-nack":  func() (scheme.Scheme, error) { return sr.New(sr.Config{Mode: sr.NACK}) },
}

// A host runs f where an end is. Devices open sockets when they are opened and when they connect.
type host func(f func())

// hosts are where the ends are, and their addresses.
func (c cell) hosts(t *testing.T) (on [2]host, addr [2]netip.Addr) {
	if c.network == "veth" {
		a, b := netnstest.Pair(t, 4200)
		return [2]host{a.Do, b.Do}, [2]netip.Addr{a.V4, b.V4}
	}
	here := func(f func()) { f() }
	return [2]host{here, here}, [2]netip.Addr{address(0), address(1)}
}

// open connects two ends with nothing configured.
func (c cell) open(t *testing.T) (e *ends, dev [2]backend.Device) {
	t.Helper()
	e = &ends{}
	on, addr := c.hosts(t)
	for i := range 2 {
		on[i](func() {
			var err error
			if c.network == "rxe" {
				dev[i], err = softroce.Open(softroce.Config{Device: fmt.Sprintf("rxe%d", i)})
			} else {
				dev[i], err = userroce.Open(userroce.Config{Addr: addr[i], Workers: c.workers})
			}
			require.NoError(t, err)
			e.ctx[i], err = sdr.NewEndpoint(dev[i], sdr.EndpointConfig{Workers: c.workers})
			require.NoError(t, err)
			s, err := schemes[c.scheme]()
			require.NoError(t, err)
			e.conn[i], err = reliability.NewConn(e.ctx[i], sdr.QPConfig{}, reliability.Config{Scheme: s})
			require.NoError(t, err)
		})
	}
	t.Cleanup(func() { closeAll(t, e, dev) }) // unless run has closed them
	e.connect(t, on)
	return e, dev
}

func closeAll(t *testing.T, e *ends, dev [2]backend.Device) {
	t.Helper()
	for i := range 2 {
		require.NoError(t, e.ctx[i].Close())
		require.NoError(t, dev[i].Close())
	}
}

// run moves transfers for d and returns how many ended in each second.
func (c cell) run(t *testing.T, d time.Duration) rates {
	t.Helper()
	e, dev := c.open(t)
	count := make([]rates, c.ways)
	done := make(chan error, c.ways)
	begun := time.Now()
	for dir := range c.ways {
		count[dir] = make(rates, max(1, d/time.Second))
		s := &stream{cell: c, from: e.conn[dir], to: e.conn[1-dir], rng: rand.New(rand.NewPCG(1, uint64(dir))), reliable: c.scheme != "none"}
		go func() { done <- s.run(begun, d, count[dir]) }()
	}
	for range c.ways {
		require.NoError(t, <-done)
	}
	closeAll(t, e, dev)
	for i := range count[0] {
		for _, other := range count[1:] {
			count[0][i] += other[i]
		}
	}
	return count[0]
}

// largest is the most that a transfer of mixed sizes has.
const largest = units.MiB

// stuck is how long no transfer may take.
const stuck = 20 * time.Second

// ahead is how many receives are posted beyond those of the transfers under way: as an application that
// wants no transfer to wait for a clear-to-send does.
const ahead = 4

// A stream moves transfers in one direction.
type stream struct {
	cell     cell
	from, to *reliability.Conn
	rng      *rand.Rand
	reliable bool

	room     units.Bytes
	src, dst *sdr.MR
	// recvs and sends are under way, the oldest first.
	recvs       []*reliability.Transfer
	sends       []outgoing
	posted, out int
}

type outgoing struct {
	t *reliability.Transfer
	n units.Bytes
	// slot is its place in src.
	slot int
}

// run moves transfers from begun on until d has passed.
func (s *stream) run(begun time.Time, d time.Duration, count rates) (err error) {
	if err := s.allocate(); err != nil {
		return err
	}
	for ended := 0; ; ended++ {
		for len(s.recvs) < s.cell.depth+ahead {
			r, err := s.to.StartRecv(s.dst, units.Bytes(s.posted%s.slots())*s.room, s.room)
			if err != nil {
				return err
			}
			s.recvs = append(s.recvs, r)
			s.posted++
		}
		for len(s.sends) < s.cell.depth {
			if err := s.send(); err != nil {
				return err
			}
		}
		if err := s.settle(ended); err != nil {
			return fmt.Errorf("transfer %d: %w", ended, err)
		}
		passed := time.Since(begun)
		count[min(int(passed/time.Second), len(count)-1)]++
		if passed >= d {
			return nil // the rest ends with the contexts
		}
	}
}

func (s *stream) slots() int { return s.cell.depth + ahead }

func (s *stream) allocate() (err error) {
	s.room = map[string]units.Bytes{"4 KiB": 4 * units.KiB, "64 KiB": 64 * units.KiB, "mixed": largest}[s.cell.sizes]
	n := units.Bytes(s.slots()) * s.room
	if s.src, err = s.from.QP().Endpoint().RegisterMemory(make([]byte, n), 0); err != nil {
		return err
	}
	s.dst, err = s.to.QP().Endpoint().RegisterMemory(make([]byte, n), sdr.AccessRemoteWrite)
	return err
}

// send starts the next transfer, which has its number at both ends of its content.
func (s *stream) send() error {
	n := s.room
	if s.cell.sizes == "mixed" { // as many from 1 to 2 bytes as from 512 KiB to 1 MiB
		n = max(1, largest>>s.rng.IntN(21)) - units.Bytes(s.rng.IntN(2))
	}
	slot := s.out % s.slots()
	stamp(s.content(s.src, slot, n), uint64(s.out))
	t, err := s.from.StartSend(s.src, units.Bytes(slot)*s.room, n, reliability.SendOptions{})
	s.sends = append(s.sends, outgoing{t, n, slot})
	s.out++
	return err
}

func (s *stream) content(mr *sdr.MR, slot int, n units.Bytes) []byte {
	at := units.Bytes(slot) * s.room
	return mr.Bytes()[at : at+n]
}

// settle waits for both halves of the oldest transfer and looks at what came.
func (s *stream) settle(ended int) error {
	r, o := s.recvs[0], s.sends[0]
	s.recvs, s.sends = s.recvs[1:], s.sends[1:]
	late := time.After(stuck)
	for _, t := range []*reliability.Transfer{o.t, r} {
		select {
		case <-t.Done():
			if err := t.Err(); err != nil {
				return err
			}
		case <-late:
			return fmt.Errorf("%d bytes take longer than %v", o.n, stuck)
		}
	}
	if r.Length() != o.n {
		return fmt.Errorf("%d bytes arrived of %d", r.Length(), o.n)
	}
	if s.reliable && !stamped(s.content(s.dst, ended%s.slots(), o.n), uint64(ended)) {
		return fmt.Errorf("wrong content in %d bytes", o.n)
	}
	return nil
}

// stamp writes a number at both ends of b, if it has room.
func stamp(b []byte, n uint64) {
	if len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, n)
		binary.LittleEndian.PutUint64(b[len(b)-8:], n)
	}
}

func stamped(b []byte, n uint64) bool {
	last := len(b) - 8
	// Where the two overlap, the later one is whole.
	return len(b) < 8 || binary.LittleEndian.Uint64(b[last:]) == n && (last < 8 || binary.LittleEndian.Uint64(b) == n)
}
