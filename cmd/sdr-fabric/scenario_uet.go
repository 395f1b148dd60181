// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/uet"
	"github.com/sdr-rdma/go-sdr/units"
)

// parseUET takes NSCC unless another controller is asked for.
func parseUET(s string, cc congestion.Spec) (transport.Factory, error) {
	var c uet.Config
	for _, o := range options(s) {
		var err error
		switch o.name {
		case "oblivious":
			c.Oblivious = true
		case "paths":
			c.Paths, err = strconv.Atoi(o.value)
		case "ack":
			err = c.AckBytes.Set(o.value)
		case "rto":
			err = (*units.DurationValue)(&c.RTO).Set(o.value)
		case "base":
			err = (*units.DurationValue)(&c.BaseRTT).Set(o.value)
		default:
			err = fmt.Errorf("unknown: choose oblivious, paths=, ack=, rto= or base=")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	if cc.Name != "none" {
		c.Congestion = cc.New
	}
	return c.Factory()
}
