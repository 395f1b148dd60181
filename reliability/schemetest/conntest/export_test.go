// SPDX-License-Identifier: Apache-2.0

package conntest

import "fmt"

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
