// SPDX-License-Identifier: Apache-2.0

package conntest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest/internal/seeds"
)

// A Suite tests a scheme under a Conn.
type Suite struct {
	// New makes the scheme of one side of a connection. A scheme.Partial may
	// leave units out, and must say how many.
	New func() scheme.Scheme
	// Seeds is how many seeds each scenario runs with: 10 by default, 1 with
	// -short.
	Seeds int
}

// Run runs every scenario as a subtest.
func (s Suite) Run(t *testing.T) {
	usual := s.Seeds
	if usual == 0 {
		usual = 10
	}
	if testing.Short() {
		usual = 1
	}
	first, n := seeds.Choose(t, usual)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			for i := range n {
				if _, err := s.one(sc, first+uint64(i)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if !testing.Short() && !race.Enabled { // it takes long
		t.Run("beyond 2^18 packets of a channel", s.long)
	}
}

// Digest condenses every packet that both sides send in all scenarios of a seed, and
// when. It is the same in every run and on every architecture.
func (s Suite) Digest(seed uint64) (uint64, error) {
	var d digest
	for _, sc := range scenarios {
		sum, err := s.one(sc, seed)
		if err != nil {
			return 0, err
		}
		d.add(uint64(sum))
	}
	return uint64(d), nil
}

// one runs a scenario with a seed.
func (s Suite) one(sc scenario, seed uint64) (digest, error) {
	rng := rand.New(rand.NewPCG(seed, 0xc0a1))
	setup := basis(rng)
	if sc.prepare != nil {
		sc.prepare(&setup, rng)
	}
	w, err := newWorld(setup, seed, rng, s.New)
	if err == nil {
		err = errors.Join(sc.play(w), w.close())
	}
	if err != nil {
		return 0, fmt.Errorf("%s, seed %d (run it alone with %s=%d): %w", sc.name, seed, seeds.One, seed, err)
	}
	return w.sum, nil
}
