// SPDX-License-Identifier: Apache-2.0

package sdr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/sdr"
)

// TestOneShape: also errors of calls that belong to no Endpoint, and of those that a driver makes, are OpErrors.
func TestOneShape(t *testing.T) {
	p, o, _ := newOpener(t)
	errs := map[string]error{}
	_, errs["AllocBuffer"] = sdr.AllocBuffer(-1)
	o.do = func(port *sdr.Port) {
		r, err := port.PostRecv(o.mr, 0, 4096, sdr.RecvOptions{})
		require.NoError(t, err)
		errs["Port.Place, out of range"] = port.Place(r, -1, 1)
		port.Complete(r)
		errs["Port.Place, completed"] = port.Place(r, 0, 1)
	}
	p.qp[0].Kick()
	p.run(ms)
	require.Len(t, errs, 3)
	for name, err := range errs {
		var e *sdr.OpError
		require.ErrorAs(t, err, &e, name)
		require.NotEmpty(t, e.Op, name)
		require.NotEmpty(t, e.Object, name)
	}
}
