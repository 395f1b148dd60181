// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/sdr-rdma/go-sdr/sdr"
	"github.com/sdr-rdma/go-sdr/units"
)

// TestAllocBuffer: with and without -race buffers begin with a page, and more than there is is an error.
func TestAllocBuffer(t *testing.T) {
	for _, n := range []units.Bytes{1, 100, 5000, 100_000} {
		b, err := sdr.AllocBuffer(n)
		require.NoError(t, err)
		require.Len(t, b, int(n))
		require.Zero(t, int(reflect.ValueOf(b).Pointer())%os.Getpagesize())
		require.NoError(t, sdr.FreeBuffer(b))
	}
	for _, n := range []units.Bytes{1 << 50, math.MaxInt64} {
		_, err := sdr.AllocBuffer(n)
		require.ErrorIs(t, err, unix.ENOMEM, "%d bytes", n)
	}
}
