// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/uet"
)

// parseUET takes NSCC unless another controller is asked for.
func parseUET(s string, cc congestion.Spec) (transport.Factory, error) {
	var c uet.Config
	err := setOptions(s, []option{
		{"oblivious", toTrue(&c.Oblivious)},
		{"paths=", positive(toInt(&c.Paths))},
		{"ack=", positive(c.AckBytes.Set)},
		{"rto=", positive(toDuration(&c.RTO))},
		{"base=", positive(toDuration(&c.BaseRTT))},
	})
	if err != nil {
		return nil, err
	}
	if cc.Name != "none" {
		c.Congestion = cc.New
	}
	return c.Factory()
}
