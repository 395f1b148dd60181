// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/mprdma"
	"github.com/sdr-rdma/go-sdr/transport/racktlp"
)

// parseRACK takes no controller: its window is all that it has.
func parseRACK(s string, cc congestion.Spec) (transport.Factory, error) {
	if cc.Name != "none" {
		return nil, fmt.Errorf("it has no congestion control: choose --cc none")
	}
	var c racktlp.Config
	err := setOptions(s, []option{
		{"window=", positive(c.Window.Set)},
		{"span=", positive(toInt(&c.Span))},
		{"reorder=", positive(toDuration(&c.Reorder))},
		{"rto=", positive(toDuration(&c.RTO))},
	})
	if err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.Factory(), nil
}

// parseMPRDMA takes no controller: it has its own. seed is of the paths that its flows draw.
func parseMPRDMA(s string, cc congestion.Spec, seed uint64) (transport.Factory, error) {
	if cc.Name != "none" {
		return nil, fmt.Errorf("it has its own congestion control: choose --cc none")
	}
	c := mprdma.Config{Seed: seed}
	err := setOptions(s, []option{
		{"initial=", positive(toInt(&c.Initial))},
		{"delta=", positive(toInt(&c.Delta))},
		{"bitmap=", positive(toInt(&c.Bitmap))},
		{"rto=", positive(toDuration(&c.RTO))},
	})
	if err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.Factory(), nil
}
