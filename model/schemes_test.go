// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	paperSR  = SR{Alpha: 2} // RTO = 3 RTT
	paperMDS = EC{Code: MDS, K: 32, M: 8, Alpha: 2, Beta: 0.5, Fallback: Whole}
	paperXOR = EC{Code: XOR, K: 32, M: 8, Alpha: 2, Beta: 0.5, Fallback: Whole}
)

func simulate(t *testing.T, s Scheme, tr Transfer, samples int) *Result {
	t.Helper()
	r, err := Simulate(s, tr, Options{Samples: samples, Seed: 1})
	require.NoError(t, err)
	return r
}

var allSchemes = []Scheme{
	SR{Alpha: 2}, SR{Alpha: 2, Overlap: true}, SR{Alpha: 0.5}, NACK(),
	EC{Code: MDS, K: 32, M: 8, Alpha: 2, Beta: 0.5, Fallback: Whole},
	EC{Code: XOR, K: 32, M: 8, Alpha: 2, Beta: 0.5, Fallback: Whole},
	EC{Code: MDS, K: 32, M: 8, Beta: 0.5},
	EC{Code: XOR, K: 32, M: 8, Beta: 0.5},
	EC{Code: MDS, K: 100, M: 3, Beta: 1},
	Adaptive{},
}
