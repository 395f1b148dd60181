// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
)

// A Suite is the conformance test of a scheme.
type Suite struct {
	// New makes the scheme of one end of a connection.
	New func() scheme.Scheme
	// Seeds is how many seeds each scenario runs with: 60 by default, a tenth
	// of that with -short.
	Seeds int
	// Partial: the scheme promises an end, not that everything arrives. What
	// waits for buffers behind a lost unit would wait for ever, so scenarios
	// with few buffers then lose nothing.
	Partial bool
	// ParityPool is how many parity units a receiver has room for.
	ParityPool int
}

// seedVariable names the environment variable that runs one seed only.
const seedVariable = "SCHEMETEST_SEED"

// Run runs every scenario as a subtest. A failure is shrunk and printed with its
// seed; with SCHEMETEST_SEED set in the environment only that seed runs.
func (s Suite) Run(t *testing.T) {
	if s.Seeds == 0 {
		s.Seeds = 60
	}
	first := uint64(1)
	if v := os.Getenv(seedVariable); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("%s=%q is not a seed: %v", seedVariable, v, err)
		}
		first, s.Seeds = seed, 1
	} else if testing.Short() || raceDetector {
		s.Seeds = max(1, s.Seeds/10)
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			for i := range s.Seeds {
				s.runOne(t, sc, first+uint64(i))
			}
		})
	}
	t.Run("same seed, same run", func(t *testing.T) { s.repeat(t, first) })
}

// prepare makes the case of a scenario for a seed.
func (s Suite) prepare(sc scenario, seed uint64) Case {
	rng := rand.New(rand.NewPCG(seed, 0xca5e))
	c := Case{Seed: seed, ParityPool: s.ParityPool}
	sc.fill(&c, rng)
	if s.Partial && c.Slots > 0 {
		c.Link.Loss = 0
	}
	return c
}

func (s Suite) runOne(t *testing.T, sc scenario, seed uint64) {
	t.Helper()
	c := s.prepare(sc, seed)
	r, err := c.Run(s.New)
	if err != nil {
		small, smallErr := Shrink(c, s.New)
		t.Fatalf("seed %d (run it alone with %s=%d): %v\nshrunk: %v\n%s", seed, seedVariable, seed, err, smallErr, small.Trace())
	}
	if r.Missing > 0 && !s.Partial && !c.Garbage {
		t.Fatalf("seed %d: the receiver was done without %d units\n%s", seed, r.Missing, c.Trace())
	}
}

// repeat runs each scenario twice: a scheme must not depend on anything but its
// arguments, such as the order of a map.
func (s Suite) repeat(t *testing.T, seed uint64) {
	for _, sc := range scenarios {
		a, _ := s.prepare(sc, seed).Run(s.New)
		b, _ := s.prepare(sc, seed).Run(s.New)
		if a.Digest != b.Digest {
			t.Errorf("%s, seed %d: two runs differ", sc.name, seed)
		}
	}
}
