// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestChurn makes queue pairs, uses them for a moment and closes them in the middle of things, several side
// by side, so that cookies, bitmaps and slots go from one to the next. At no time have more packets
// completed than were posted, and what is closed holds nothing: no credit, cookie, message, bitmap or
// reference.
func TestChurn(t *testing.T) {
	const together, cookies = 3, 8 * 4 * 4 // a cookie of a closed queue pair is free once each worker has left the batch it was in
	lives := 200
	if race.Enabled {
		lives = 50
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for workers := 1; workers <= 2; workers++ {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			s := newSockets(t, workers)
			var mrs [2][together]*sdr.MR
			for e := range 2 {
				for k := range together {
					mrs[e][k] = s.mr(t, e, units.MiB)
				}
			}
			var wg sync.WaitGroup
			for k := range together {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(k)))
					for range lives {
						if err := s.live(rng, [2]*sdr.MR{mrs[0][k], mrs[1][k]}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			for e, c := range s.ctx {
				require.NoError(t, c.CheckIdle(together*cookies), "end %d", e)
				// Each bitmap is back, of which there are no more than were in use at once.
				require.LessOrEqual(t, c.Slabs(), together*(1+messagesAtOnce), "end %d", e)
				for _, m := range mrs[e] {
					require.Zero(t, m.Refs(), "end %d: references", e)
					require.NoError(t, m.Close())
				}
			}
		})
	}
}

const messagesAtOnce = 6

// live is the life of a pair of queue pairs that use one region on each side.
func (s *sockets) live(rng *rand.Rand, mr [2]*sdr.MR) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var q [2]*sdr.QP
	for i := range 2 {
		var err error
		if q[i], err = s.ctx[i].NewQP(sdr.QPConfig{MTU: 1024, MaxMessage: units.MiB}); err != nil {
			return err
		}
		if n := q[i].Stats().InFlight; n != 0 {
			return fmt.Errorf("a new queue pair has %d packets in flight", n)
		}
	}
	if rng.IntN(5) > 0 { // else it is closed while it connects
		other := make(chan error, 1)
		go func() { other <- q[1].Connect(ctx, q[0].Info()) }()
		if err := q[0].Connect(ctx, q[1].Info()); err != nil {
			return err
		}
		if err := <-other; err != nil {
			return err
		}
		if err := s.traffic(rng, q, mr); err != nil {
			return err
		}
	} else if err := q[0].StartConnect(q[1].Info()); err != nil {
		return err
	}
	for i := range 2 {
		i ^= rng.IntN(2)
		if err := q[i].Check(); err != nil {
			return err
		}
		if err := q[i].Close(); err != nil {
			return err
		}
	}
	for i := range 2 {
		if err := q[i].Close(); err != nil {
			return err
		}
		if err := q[i].Check(); err != nil {
			return err
		}
		if n := mr[i].Refs(); n != 0 {
			return fmt.Errorf("end %d: %d references are left to memory that only closed queue pairs used", i, n)
		}
	}
	return nil
}

// traffic posts messages of all lengths in both directions and lets some of them pass.
func (s *sockets) traffic(rng *rand.Rand, q [2]*sdr.QP, mr [2]*sdr.MR) error {
	for range 1 + rng.IntN(messagesAtOnce-1) {
		for e := range 2 {
			n := units.Bytes(rng.IntN(100_000))
			r, err := q[e].PostRecv(mr[e], 0, n)
			if err != nil {
				return err
			}
			if rng.IntN(4) == 0 {
				if err := r.Complete(); err != nil {
					return err
				}
			}
			if _, err := q[1-e].PostSend(mr[1-e], 0, n, sdr.SendOptions{HasImm: rng.IntN(2) == 0}); err != nil {
				return err
			}
			if err := q[e].Check(); err != nil {
				return err
			}
		}
		time.Sleep(time.Duration(rng.IntN(500)) * time.Microsecond)
	}
	return nil
}
