// SPDX-License-Identifier: Apache-2.0

package schemetest

import (
	"fmt"
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
)

// longUnits is more than a message has packets, and than any count of 16 or 18 bits has numbers for.
const longUnits = 1<<18 + 1<<16

// longCase is a transfer of so many units on one channel.
func longCase(unit units.Bytes) Case {
	c := Case{Seed: 1, Units: longUnits, UnitBytes: unit, Channels: 1, Rate: 10 * units.Gbit, Burst: 16}
	c.Link.Loss, c.Link.ControlLoss = 10_000, 10_000
	c.Limit = 8 * c.Ideal()
	return c
}

// long moves more units over one channel than the counts that stand for its packets elsewhere have numbers
// for. It is run once, as it is long, and not shrunk: a shorter one shows something else.
func (s Suite) long(t *testing.T) {
	for _, unit := range []units.Bytes{1024, 4096} {
		t.Run(fmt.Sprintf("of %d bytes", int64(unit)), func(t *testing.T) {
			c := longCase(unit)
			r, err := s.run(c)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.2f of the ideal, %d sent for %d", float64(r.Completion[0])/float64(c.Ideal()), r.Sender.Sent, longUnits)
		})
	}
}
