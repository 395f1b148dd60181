// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/schemes"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
)

// schemeParams are what the schemes are told.
type schemeParams struct{ schemes.Params }

// register adds the flags of all schemes.
func (p *schemeParams) register(f *pflag.FlagSet) {
	f.Float64Var(&p.Alpha, "alpha", p.Alpha, "sr: timeout RTT + `alpha`·RTT (default 2)")
	f.Float64Var(&p.Beta, "beta", p.Beta, "ec: repeats are asked for `beta`·RTT after a group should be there (default 0.5)")
	f.Var(&p.Code, "ec", "ec: data and parity units of a group (default 32,8)")
}

// check says which value is out of range.
func (p *schemeParams) check() error {
	for _, x := range []struct {
		flag  string
		value float64
		least float64
		most  float64
	}{
		{"alpha", p.Alpha, sr.MinAlpha, sr.MaxAlpha},
		{"beta", p.Beta, ec.MinBeta, ec.MaxBeta},
	} {
		if x.value != 0 && !(x.value >= x.least && x.value <= x.most) {
			return fmt.Errorf("--%s %v: choose %v to %v", x.flag, x.value, x.least, x.most)
		}
	}
	if p.Code != (schemes.Code{}) {
		if _, err := ec.New(ec.Config{Code: ec.MDS, K: p.K, M: p.M}); err != nil {
			return fmt.Errorf("--ec %v: %w", &p.Code, err)
		}
	}
	return nil
}
