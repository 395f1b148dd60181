// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// Sizes is the value of a flag that takes sizes with commas between.
type Sizes []units.Bytes

// Set replaces the list; after an error it is what it was.
func (s *Sizes) Set(text string) error {
	var list Sizes
	for _, t := range strings.Split(text, ",") {
		n, err := units.ParseBytes(t)
		if err != nil {
			return err
		}
		list = append(list, n)
	}
	*s = list
	return nil
}

// Type names the kind of flag.
func (s *Sizes) Type() string { return "sizes" }

func (s *Sizes) String() string {
	var b []string
	for _, n := range *s {
		b = append(b, strings.ReplaceAll(n.String(), " ", ""))
	}
	return strings.Join(b, ",")
}
