// SPDX-License-Identifier: Apache-2.0

package seeds

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		one, many string
		first     uint64
		n         int
	}{
		{"", "", 1, 60},
		{"", "1000", 1, 1000},
		{"", "0", 1, 1},
		{"17", "", 17, 1},
		{"17", "1000", 17, 1},
	} {
		t.Setenv(One, tc.one)
		t.Setenv(Many, tc.many)
		first, n := Choose(t, 60)
		assert.Equal(t, tc.first, first, tc)
		assert.Equal(t, tc.n, n, tc)
	}
}
