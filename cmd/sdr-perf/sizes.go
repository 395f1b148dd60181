// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// maxSize is beyond every machine's memory, and leaves room for arithmetic.
const maxSize = 64 * units.TiB

// sizes is a flag that holds a list of sizes.
type sizes []units.Bytes

// Set replaces the list.
func (s *sizes) Set(text string) error {
	var list sizes
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
func (s *sizes) Type() string { return "sizes" }

func (s *sizes) String() string {
	var b []string
	for _, n := range *s {
		b = append(b, strings.ReplaceAll(n.String(), " ", ""))
	}
	return strings.Join(b, ",")
}
