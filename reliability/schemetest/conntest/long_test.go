// SPDX-License-Identifier: Apache-2.0

//go:build !race

// One goroutine moves everything, in virtual time: the race detector has nothing to find.

package conntest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/schemetest/conntest"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
)

// TestSlowSchemeHearsTheLimit: who writes a scheme that is right but slow hears how fast it had to be.
func TestSlowSchemeHearsTheLimit(t *testing.T) {
	s := conntest.Suite{New: func() scheme.Scheme {
		s, err := sr.New(sr.Config{Alpha: sr.MaxAlpha})
		require.NoError(t, err)
		return s
	}}
	require.ErrorContains(t, s.MoveLong(1024), "not done after 2 times the ideal of 278")
}
