// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/units"
	"github.com/stretchr/testify/require"
)

func TestBestSplit(t *testing.T) {
	for _, p := range []UnitDrop{1e-5, 1e-3, 1e-2} {
		tr := paperLink(units.GiB, p)
		e, mean, err := EC{K: 32, M: 8, Beta: 0.5}.BestSplit(tr)
		require.NoError(t, err)
		asked, err := Mean(EC{K: 32, M: 8, Beta: 0.5}, tr)
		require.NoError(t, err)
		require.Less(t, mean, asked, "p=%g: larger groups need less parity: %+v", p, e)
		fallback, err := e.FallbackProbability(tr)
		require.NoError(t, err)
		require.LessOrEqual(t, fallback, 1e-3)
	}
	_, _, err := EC{}.BestSplit(Transfer{})
	require.ErrorIs(t, err, ErrRange)
	_, _, err = EC{Beta: 0.5}.BestSplit(paperLink(units.GiB, 0.8))
	require.NoError(t, err, "no split is rare enough: the best of all")
}
