// SPDX-License-Identifier: Apache-2.0

package linkemu

import (
	"errors"
	"flag"
	"reflect"

	"github.com/sdr-rdma/go-sdr/units"
)

// AddFlags adds flags that set c: --rtt, --rate, --drop, --reorder, --duplicate and --seed, of which the first two
// refuse 0: a link without them is one without these flags.
func (c *Config) AddFlags(f *flag.FlagSet) {
	f.Func("rtt", "emulated link: round-trip `time`, such as 25ms", func(text string) (err error) {
		if c.RTT, err = units.ParseDuration(text); err == nil && c.RTT == 0 {
			err = errors.New("choose more than 0, or leave it out")
		}
		return err
	})
	f.Func("rate", "emulated link: `rate`, such as 1gbit; sending is paced to it", func(text string) (err error) {
		if err = c.Rate.Set(text); err == nil && c.Rate == 0 {
			err = errors.New("choose more than 0 bit/s, or leave it out")
		}
		return err
	})
	f.Float64Var(&c.Drop, "drop", c.Drop, "emulated link: `probability` that a packet is lost, such as 1e-3")
	f.Float64Var(&c.Reorder, "reorder", c.Reorder, "emulated link: `probability` that a packet is overtaken by later ones")
	f.Float64Var(&c.Duplicate, "duplicate", c.Duplicate, "emulated link: `probability` that a packet arrives twice")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "`number` that the emulated link's faults depend on; give the ends different ones")
}

// ChangesNothing reports whether a link of c is as if there were none.
func (c Config) ChangesNothing() bool {
	c.Seed = 0
	return reflect.ValueOf(c).IsZero()
}

// UserRate is what of the link's rate is left for user data in packets of mtu bytes, each with header bytes more
// (backend.Caps.HeaderBytes). It is 0 without a rate.
func (c Config) UserRate(mtu, header units.Bytes) units.Rate {
	return units.RateOf(mtu, c.TotalRate().Time(mtu+header))
}
