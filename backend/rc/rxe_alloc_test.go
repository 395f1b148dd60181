// SPDX-License-Identifier: Apache-2.0

//go:build rxe && !race

package rc_test

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/backend/internal/kerneltest"
	"github.com/sdr-rdma/go-sdr/backend/rc"
)

func TestNoAllocation(t *testing.T) { kerneltest.NoAllocation(t, rc.Open) }
