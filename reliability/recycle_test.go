// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend/sim"
	"github.com/sdr-rdma/go-sdr/reliability"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A halfCounter is a scheme whose halves say when they are recycled, and pass that on if keeps is set.
type halfCounter struct {
	scheme.Scheme
	t              *testing.T
	keeps          bool
	made, recycled int
}

// A half is what its Sender and Receiver have in common.
type half struct {
	c    *halfCounter
	core any
	over bool
}

func (h *half) live() { require.False(h.c.t, h.over, "a half is called after it was recycled") }

func (h *half) Recycle() {
	h.live()
	h.over = true
	h.c.recycled++
	if r, ok := h.core.(scheme.Recycler); ok && h.c.keeps {
		r.Recycle()
	}
}

type countedSender struct {
	scheme.Sender
	half
}

func (s *countedSender) Poll(now units.Instant, out *scheme.Output) (units.Instant, error) {
	s.live()
	return s.Sender.Poll(now, out)
}

func (s *countedSender) OnControl(now units.Instant, frame []byte) error {
	s.live()
	return s.Sender.OnControl(now, frame)
}

func (s *countedSender) Stats() scheme.Stats {
	s.live()
	return s.Sender.Stats()
}

type countedReceiver struct {
	scheme.Receiver
	half
}

func (r *countedReceiver) Poll(now units.Instant, v scheme.View, out *scheme.Output) (units.Instant, bool, error) {
	r.live()
	return r.Receiver.Poll(now, v, out)
}

func (r *countedReceiver) OnReliable(now units.Instant, frame []byte) error {
	r.live()
	return r.Receiver.(scheme.ReliableReceiver).OnReliable(now, frame)
}

func (c *halfCounter) NewSender(t scheme.Transfer, env *scheme.Env) (scheme.Sender, error) {
	core, err := c.Scheme.NewSender(t, env)
	c.made++
	return &countedSender{core, half{c: c, core: core}}, err
}

func (c *halfCounter) NewReceiver(t scheme.Transfer, env *scheme.Env) (scheme.Receiver, error) {
	core, err := c.Scheme.NewReceiver(t, env)
	c.made++
	return &countedReceiver{core, half{c: c, core: core}}, err
}

// TestHalvesAreRecycled: each half of a transfer is recycled when nobody calls it any more, and one that is made in the memory of
// another does what a new one does, to the nanosecond, on a link that loses packets.
func TestHalvesAreRecycled(t *testing.T) {
	const transfers = 120
	for _, name := range []string{"sr", "sr-nack", "adaptive"} {
		t.Run(name, func(t *testing.T) {
			ends := func(keeps bool) (at []units.Instant) {
				var halves []*halfCounter
				p := newPair(t, setup{
					net: sim.Config{Rate: 10 * units.Gbit, Seed: 3, Link: sim.Link{Delay: 500 * units.Microsecond, Loss: sim.Loss{Drop: 0.02}}},
					qp:  sdr.QPConfig{MTU: 4096, MaxMessage: units.MiB},
					scheme: func() scheme.Scheme {
						c := &halfCounter{Scheme: allSchemes(t)[name](), t: t, keeps: keeps}
						halves = append(halves, c)
						return c
					},
				})
				for i, size := range []units.Bytes{4096, 300 * units.KiB, 1} { // halves of large transfers serve small ones, too
					s := p.stream(0, size, 4)
					p.until(10*units.Second, func() bool {
						s.turn()
						for len(at) < i*transfers+s.finished {
							at = append(at, p.net.Now())
						}
						return s.finished >= transfers
					})
					p.until(10*units.Second, func() bool {
						return !slices.ContainsFunc(append(s.send, s.recv...), func(t *reliability.Transfer) bool { return !finished(t) })
					})
				}
				for _, c := range halves {
					require.Equal(t, c.made, c.recycled)
				}
				return at
			}
			require.Equal(t, ends(false), ends(true))
		})
	}
}
