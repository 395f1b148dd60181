// SPDX-License-Identifier: Apache-2.0

package conntest

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/units"
)

// MoveLong moves more packets over a channel than its count has numbers for.
func (s Suite) MoveLong(mtu units.Bytes) error {
	_, err := s.moveLong(mtu)
	return err
}

// One runs a scenario by its name.
func (s Suite) One(name string, seed uint64) error {
	for _, sc := range scenarios {
		if sc.name == name {
			_, err := s.one(sc, seed)
			return err
		}
	}
	return fmt.Errorf("no scenario %q", name)
}
