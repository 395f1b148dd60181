// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/mprdma"
	"github.com/sdr-rdma/go-sdr/transport/racktlp"
	"github.com/sdr-rdma/go-sdr/units"
)

// parseRACK takes no controller: its window is all that it has.
func parseRACK(s string, cc congestion.Spec) (transport.Factory, error) {
	if cc.Name != "none" {
		return nil, fmt.Errorf("it has no congestion control: choose --cc none")
	}
	var c racktlp.Config
	for _, o := range options(s) {
		var err error
		switch o.name {
		case "window":
			err = c.Window.Set(o.value)
		case "span":
			c.Span, err = strconv.Atoi(o.value)
		case "reorder":
			err = (*units.DurationValue)(&c.Reorder).Set(o.value)
		case "rto":
			err = (*units.DurationValue)(&c.RTO).Set(o.value)
		default:
			err = fmt.Errorf("unknown: choose window=, span=, reorder= or rto=")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
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
	for _, o := range options(s) {
		var err error
		switch o.name {
		case "initial":
			c.Initial, err = strconv.Atoi(o.value)
		case "delta":
			c.Delta, err = strconv.Atoi(o.value)
		case "bitmap":
			c.Bitmap, err = strconv.Atoi(o.value)
		case "rto":
			err = (*units.DurationValue)(&c.RTO).Set(o.value)
		default:
			err = fmt.Errorf("unknown: choose initial=, delta=, bitmap= or rto=")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.Factory(), nil
}
