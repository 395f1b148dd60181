// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/backend"
	"github.com/sdr-rdma/go-sdr/sdr"
)

// A stubbornDevice deregisters no memory.
type stubbornDevice struct{ backend.Device }

type stubbornRegion struct{ backend.Region }

var errStubborn = errors.New("not now")

func (stubbornRegion) Close() error { return errStubborn }

func (d stubbornDevice) Register(mem []byte, access backend.Access) (backend.Region, error) {
	r, err := d.Device.Register(mem, access)
	return stubbornRegion{r}, err
}

// TestMRCloseFails: memory that the device fails to deregister is as it was, whoever tried to use it meanwhile.
func TestMRCloseFails(t *testing.T) {
	p := newWrapped(t, link(), small, func(_ int, d backend.Device) backend.Device { return stubbornDevice{d} })
	m := p.mr(0, 4096, false)
	const rounds = 200_000
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range rounds {
				if m.Hold(p.ctx[0], 0, 0, 1) == nil {
					m.Release()
				}
			}
		})
	}
	for range rounds {
		if err := m.Close(); !errors.Is(err, errStubborn) && !errors.Is(err, sdr.ErrBusy) {
			require.NoError(t, err)
			require.Fail(t, "it is closed")
		}
	}
	wg.Wait()
	require.Zero(t, m.Refs())
}
