// SPDX-License-Identifier: Apache-2.0

//go:build rxe

package rc_test

import (
	"testing"

	"github.com/sdr-rdma/go-sdr/backend/internal/kerneltest"
	"github.com/sdr-rdma/go-sdr/backend/rc"
	"github.com/sdr-rdma/go-sdr/sdr/sdrtest"
)

// The tests with build tag rxe need a kernel with two rxe devices whose interfaces are connected:
//
//	go run ./test/vm -suite short
func TestMain(m *testing.M) { kerneltest.Main(m) }

// TestConformance runs the suite that every backend passes.
func TestConformance(t *testing.T) { kerneltest.Conformance(t, rc.Open, sdrtest.Cases()...) }
