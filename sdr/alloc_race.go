// SPDX-License-Identifier: Apache-2.0

//go:build race

package sdr

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/units"
)

// AllocBuffer returns heap memory, so that the race detector sees it; see the
// version without -race.
func AllocBuffer(n units.Bytes) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("allocate %d bytes: %w: the size must be positive", n, ErrArgument)
	}
	return make([]byte, n), nil
}

// FreeBuffer returns memory of AllocBuffer. Nothing may use it any more.
func FreeBuffer([]byte) error { return nil }
