// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
)

// notZero are flags whose zero stands for "not given", and what may be given. Who writes a zero wants
// something else than the default.
var notZero = map[string]string{
	"mtu":     "choose 256, 512, 1024, 2048 or 4096",
	"chunk":   "choose a multiple of the MTU",
	"unit":    "choose a multiple of the MTU",
	"alpha":   "choose 0.001 to 64",
	"beta":    "choose 0.001 to 64",
	"ec":      "choose k from 1 to 254 and m from 1 to k, together at most 255",
	"rtt":     "choose 1 ns to 1 hour",
	"rate":    "choose more than 0 bit/s",
	"queue":   "choose 1 byte or more",
	"burst":   "choose 1 packet or more",
	"workers": "choose 1 to 8",
	"ib-port": "choose 1 to 255",

	"min-gbps":          "choose more than zero",
	"min-rate":          "choose more than zero",
	"max-avg":           "choose more than zero",
	"max-p99":           "choose more than zero",
	"max-ideal":         "choose more than zero",
	"max-ns-per-packet": "choose more than zero",
}

// checkZeros refuses zeros that were given. All those flags have zero as their default.
func checkZeros(given *pflag.FlagSet) error {
	fresh := ownFlags()
	var err error
	given.Visit(func(f *pflag.Flag) {
		may, ok := notZero[f.Name]
		if ok && err == nil && f.Value.String() == fresh.Lookup(f.Name).Value.String() {
			err = usage.Errorf("--%s 0: %s, or leave it out", f.Name, may)
		}
	})
	return err
}
