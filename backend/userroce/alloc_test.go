// SPDX-License-Identifier: Apache-2.0

//go:build !race

package userroce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
)

// TestNoAllocations: posting, polling, waiting and datagrams allocate nothing, with and without trains.
func TestNoAllocations(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		for _, plain := range []bool{false, true} {
			a, b := newPair(t, v6, func(a, _ *sideConfig) { a.DisableGSO = plain })
			rkey, va := b.expose(0, 0, testMax)
			w := a.message(rkey, va, 40*4096+5, 4096)
			w[3].Signaled = true
			from := a.newUD()
			h, err := a.d.OpenAddress(b.newUD().Info())
			require.NoError(t, err)
			g := []backend.Datagram{{To: h, Data: make([]byte, 100)}, {To: h, Data: make([]byte, 5)}}
			round := func() {
				n, err := a.qp.PostWrites(a.d.Now(), w)
				if err != nil || n != len(w) {
					t.Fatal(n, err)
				}
				if n, err := from.PostDatagrams(a.d.Now(), g); err != nil || n != len(g) {
					t.Fatal(n, err)
				}
				for got := 0; got < len(w)+len(g); {
					n, err := b.cq.Poll(b.d.Now(), b.batch[:])
					if err != nil {
						t.Fatal(err)
					}
					for i := range b.batch[:n] {
						b.cq.Datagram(&b.batch[i])
					}
					got += n
					b.cq.Next()
				}
				if n, err := a.cq.Poll(a.d.Now(), a.batch[:]); err != nil || n != 1 {
					t.Fatal(n, err)
				}
				a.cq.Wake()
				a.cq.Wait(1000)
				a.cq.Wait(1000)
				b.d.Stats()
			}
			require.Zero(t, testing.AllocsPerRun(50, round))
		}
	})
}

// TestMarksDoNotAllocate: marked packets and their notifications allocate nothing.
func TestMarksDoNotAllocate(t *testing.T) {
	families(t, func(t *testing.T, v6 bool) {
		a, b := newPair(t, v6, withECN)
		a.qp.(*queuePair).peer.Load().tos = ecnCE
		rkey, va := b.expose(0, 0, testMax)
		w := a.message(rkey, va, 4*4096, 4096)
		now := b.d.Now()
		round := func() {
			if n, err := a.qp.PostWrites(now, w); err != nil || n != len(w) {
				t.Fatal(n, err)
			}
			now = now.Add(cnpInterval) // so that each round has a notification
			for got := 0; got < len(w); {
				n, err := b.cq.Poll(now, b.batch[:])
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
			for got := 0; got < 1; {
				n, err := a.cq.Poll(now, a.batch[:])
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
		}
		require.Zero(t, testing.AllocsPerRun(50, round))
	})
}

// TestDropsDoNotAllocate: packets that are rejected allocate nothing.
func TestDropsDoNotAllocate(t *testing.T) {
	for _, x := range rejections {
		t.Run(x.name, func(t *testing.T) { // closes the pair before the next one opens
			a, b := newPair(t, false, func(a, b *sideConfig) { a.mtu, b.mtu = 1024, 1024 })
			rkey, va := b.expose(openSeq, 4096, openLength)
			s := newStranger(t, a.d.addr, b.d)
			packet := x.packet(b, rkey, va)
			s.seal(packet)
			b.nothing(1)
			r := b.d.receivers[0]
			copy(r.batch.buf, packet)
			var c backend.Completion
			require.Zero(t, testing.AllocsPerRun(20, func() {
				if r.responder.handle(0, len(packet), &c) {
					t.Fatal("accepted")
				}
			}))
		})
	}
}
