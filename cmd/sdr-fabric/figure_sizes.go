// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/sdr-rdma/go-sdr/units"
)

// A sizeList is sizes with commas between, as a flag.
type sizeList []units.Bytes

func (l *sizeList) Set(s string) error {
	var sizes []units.Bytes
	for _, part := range strings.Split(s, ",") {
		var size units.Bytes
		if err := size.Set(part); err != nil {
			return err
		}
		sizes = append(sizes, size)
	}
	*l = sizes
	return nil
}

func (l *sizeList) String() string {
	var parts []string
	for _, size := range *l {
		parts = append(parts, size.String())
	}
	return strings.Join(parts, ",")
}

func (l *sizeList) Type() string { return "sizes" }
