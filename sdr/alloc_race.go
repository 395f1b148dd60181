// SPDX-License-Identifier: Apache-2.0

//go:build race

package sdr

import "github.com/sdr-rdma/go-sdr/units"

// AllocBuffer returns heap memory, so that the race detector sees it; see the
// version without -race.
func AllocBuffer(n units.Bytes) ([]byte, error) {
	if n <= 0 {
		return nil, &OpError{Op: "allocate", Object: n.String(), Err: ErrArgument, Detail: "the size must be positive"}
	}
	return make([]byte, n), nil
}

// FreeBuffer returns memory of AllocBuffer. Nothing may use it any more.
func FreeBuffer([]byte) error { return nil }
