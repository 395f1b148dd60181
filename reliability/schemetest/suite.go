// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sdr-rdma/go-sdr/internal/race"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest/internal/seeds"
)

// A Suite is the conformance test of a scheme.
type Suite struct {
	// New makes the scheme of one side of a connection.
	New func() scheme.Scheme
	// Seeds is how many seeds each scenario runs with: 60 by default, a tenth
	// of that with -short and under the race detector.
	Seeds int
	// Partial says that the scheme promises an end, and not that everything arrives. A transfer that
	// waits for buffers behind a lost unit would then wait for ever, so scenarios
	// with few buffers lose nothing.
	Partial bool
	// ParityPool is how many parity units a receiver has room for.
	ParityPool int
	// Goodput is what long transfers must reach through a bottleneck 10 %
	// below the paced rate, as a share of its rate times 1−p; 0: not checked.
	Goodput float64
}

// defaultSeeds keeps a suite within seconds.
const defaultSeeds = 60

// Run runs every scenario as a subtest. A failure is shrunk and printed with its
// seed. With SCHEMETEST_SEED set in the environment only that seed runs, and with
// SCHEMETEST_SEEDS so many, whatever Seeds says.
func (s Suite) Run(t *testing.T) {
	first := s.seeds(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			for i := range s.Seeds {
				if f := s.one(sc, first+uint64(i)); f != nil {
					t.Fatal(f)
				}
			}
		})
	}
	t.Run("every pattern of few packets", func(t *testing.T) {
		if f := s.patterns(testing.Short() || race.Enabled); f != nil {
			t.Fatal(f)
		}
	})
	if !testing.Short() && !race.Enabled { // it takes long
		t.Run("beyond 2^18 packets of a channel", s.long)
	}
	if s.Goodput > 0 {
		t.Run("goodput through a bottleneck", s.goodput)
	}
	t.Run("same seed, same run", func(t *testing.T) { s.repeat(t, first) })
}

// seeds settles how many seeds there are, and returns the first.
func (s *Suite) seeds(t *testing.T) (first uint64) {
	t.Helper()
	if s.Seeds == 0 {
		s.Seeds = defaultSeeds
	}
	if testing.Short() || race.Enabled {
		s.Seeds = max(1, s.Seeds/10)
	}
	first, s.Seeds = seeds.Choose(t, s.Seeds)
	return first
}

// A Failure is a case that a scheme fails.
type Failure struct {
	// Scenario and Seed find the case again; Err is what was wrong.
	Scenario string
	Seed     uint64
	Err      error
	// Small is the smallest case found that fails, too, with SmallErr.
	Small    Case
	SmallErr error
}

// Error says how to see the failure again, and shows the smallest case.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s, seed %d (run it alone with %s=%d): %v\nshrunk: %v\n%s",
		f.Scenario, f.Seed, seeds.One, f.Seed, f.Err, f.SmallErr, f.Small.Trace())
}

// Check runs scenarios with the given seeds, and returns the first failure, or
// nil.
func (s Suite) Check(seeds ...uint64) *Failure {
	for _, seed := range seeds {
		for _, sc := range scenarios {
			if f := s.one(sc, seed); f != nil {
				return f
			}
		}
	}
	return s.patterns(true)
}

// prepare makes the case of a scenario for a seed. All scenarios have the same
// draws, so that cases of one seed differ by what their scenarios change.
func (s Suite) prepare(sc scenario, seed uint64) Case {
	rng := rand.New(rand.NewPCG(seed, 0xca5e))
	c := Case{Seed: seed, ParityPool: s.ParityPool}
	sc.fill(&c, rng)
	if s.Partial && c.Slots > 0 {
		c.Link.Loss = 0
	}
	return c
}

func (s Suite) one(sc scenario, seed uint64) *Failure {
	return s.try(sc.name, s.prepare(sc, seed))
}

// try runs a case and shrinks it if it fails.
func (s Suite) try(name string, c Case) *Failure {
	_, err := s.run(c)
	if err == nil {
		return nil
	}
	small, smallErr := shrink(c, s.run)
	return &Failure{Scenario: name, Seed: c.Seed, Err: err, Small: small, SmallErr: smallErr}
}

// run is Case.Run, and counts units that are missing in the end as a failure.
func (s Suite) run(c Case) (Result, error) {
	r, err := c.Run(s.New)
	if err == nil && r.Missing > 0 && !s.Partial && !c.Garbage {
		err = fmt.Errorf("seed %d: the receiver was done without %d units", c.Seed, r.Missing)
	}
	return r, err
}

// repeat runs each scenario twice: a scheme must not depend on anything but its
// arguments, such as the order of a map.
func (s Suite) repeat(t *testing.T, seed uint64) {
	if a, b := s.Digest(seed), s.Digest(seed); a != b {
		t.Errorf("seed %d: two runs differ: %#x and %#x", seed, a, b)
	}
}

// Digest condenses what the scheme does in all scenarios of a seed, and when. It
// is the same in every run and on every architecture.
func (s Suite) Digest(seed uint64) uint64 {
	var d digest
	for _, sc := range scenarios {
		r, _ := s.prepare(sc, seed).Run(s.New)
		d.add(r.Digest)
	}
	return uint64(d)
}
