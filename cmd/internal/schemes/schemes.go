// SPDX-License-Identifier: Apache-2.0

// Package schemes maps the names that commands give to reliability schemes to what makes them, and
// holds the flags that they take.
package schemes

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
)

// Params are what schemes can be told. Zero values stand for a scheme's own default.
type Params struct {
	// Alpha is the α of sr's timeout RTT + α·RTT.
	Alpha float64 `json:"alpha,omitempty"`
}

// Register adds the flags of all schemes.
func (p *Params) Register(f *pflag.FlagSet) {
	f.Float64Var(&p.Alpha, "alpha", p.Alpha, "sr: timeout RTT + `alpha`·RTT (default 2)")
}

// Check says which value is out of range.
func (p *Params) Check() error {
	if !(p.Alpha >= 0 && p.Alpha <= sr.MaxAlphaMilli/1000) {
		return fmt.Errorf("--alpha %v: choose 0.001 to %d", p.Alpha, sr.MaxAlphaMilli/1000)
	}
	return nil
}

// An entry is one scheme.
type entry struct {
	new func(Params) (scheme.Scheme, error)
	// used fills in the defaults and leaves out what the scheme doesn't use.
	used func(Params) Params
}

var table = map[string]entry{
	"sr":      {newSR(sr.RTO), usedBySR},
	"sr-nack": {newSR(sr.NACK), usedBySR},
}

func newSR(m sr.Mode) func(Params) (scheme.Scheme, error) {
	return func(p Params) (scheme.Scheme, error) {
		return sr.New(sr.Config{Mode: m, AlphaMilli: milli(p.Alpha)})
	}
}

func usedBySR(p Params) Params {
	if p.Alpha == 0 {
		p.Alpha = sr.DefaultAlphaMilli / 1000.0
	}
	return Params{Alpha: p.Alpha}
}

func milli(v float64) int { return int(math.Round(v * 1000)) }

// Names are the known names in order.
func Names() []string { return slices.Sorted(maps.Keys(table)) }

// Known says whether there is such a scheme, and which there are if not.
func Known(name string) error {
	if _, ok := table[name]; !ok {
		return fmt.Errorf("unknown reliability scheme %q: choose among %s", name, strings.Join(Names(), ", "))
	}
	return nil
}

// New makes a scheme for one connection.
func New(name string, p Params) (scheme.Scheme, error) {
	if err := Known(name); err != nil {
		return nil, err
	}
	return table[name].new(p)
}

// Used returns the parameters that the named scheme uses, with its defaults.
func Used(name string, p Params) Params { return table[name].used(p) }
