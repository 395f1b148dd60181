// SPDX-License-Identifier: Apache-2.0

// Package schemes makes reliability schemes by name, for programs whose user names one.
package schemes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/reliability/adaptive"
	"github.com/sdr-rdma/go-sdr/reliability/ec"
	"github.com/sdr-rdma/go-sdr/reliability/none"
	"github.com/sdr-rdma/go-sdr/reliability/scheme"
	"github.com/sdr-rdma/go-sdr/reliability/sr"
	"github.com/sdr-rdma/go-sdr/reliability/strack"
)

// Params are what can be configured of schemes. Zero values stand for a scheme's own default.
type Params struct {
	// Alpha is the α of sr's timeout RTT + α·RTT.
	Alpha float64 `json:"alpha,omitempty"`
	// Beta is the β of ec's fallback, β·RTT after the expected arrival.
	Beta float64 `json:"beta,omitempty"`
	Code
}

// A Code is an erasure code: K data units and M parity units in a group.
type Code struct {
	K int `json:"k,omitempty"`
	M int `json:"m,omitempty"`
}

// Set reads "k,m".
func (c *Code) Set(text string) error {
	k, m, ok := strings.Cut(text, ",")
	ki, kerr := strconv.Atoi(k)
	mi, merr := strconv.Atoi(m)
	if !ok || kerr != nil || merr != nil {
		return fmt.Errorf("%q: want two numbers, such as 32,8", text)
	}
	*c = Code{ki, mi}
	return nil
}

// Type names the kind of flag.
func (c *Code) Type() string { return "k,m" }

func (c *Code) String() string {
	if *c == (Code{}) {
		return ""
	}
	return fmt.Sprintf("%d,%d", c.K, c.M)
}

// defaultCode is the paper's.
var defaultCode = Code{32, 8}

// An entry is one scheme.
type entry struct {
	new func(Params) (scheme.Scheme, error)
	// used fills in the defaults and leaves out what the scheme doesn't use.
	used func(Params) Params
	// lossy: what is lost stays lost.
	lossy bool
}

var table = map[string]entry{
	"none":    {new: newNone, used: usedByNone, lossy: true},
	"sr":      {new: newSR(sr.RTO), used: usedBySR},
	"sr-nack": {new: newSR(sr.NACK), used: usedBySR},
	"ec-xor":  {new: newEC(ec.XOR), used: usedByEC},
	"ec-mds":  {new: newEC(ec.MDS), used: usedByEC},

	// These choose for themselves.
	"adaptive": {new: newAdaptive, used: usedByNone},
	"strack":   {new: newSTrack(strack.Config{}), used: usedByNone},
	"strack-p": {new: newSTrack(strack.Config{Parity: true}), used: usedByNone},
}

func newSTrack(c strack.Config) func(Params) (scheme.Scheme, error) {
	return func(Params) (scheme.Scheme, error) { return strack.New(c) }
}

func newAdaptive(Params) (scheme.Scheme, error) { return adaptive.New(adaptive.Config{}) }

func newNone(Params) (scheme.Scheme, error) { return none.New(), nil }

func usedByNone(Params) Params { return Params{} }

func newSR(m sr.Mode) func(Params) (scheme.Scheme, error) {
	return func(p Params) (scheme.Scheme, error) {
		return sr.New(sr.Config{Mode: m, Alpha: p.Alpha})
	}
}

func usedBySR(p Params) Params {
	return Params{Alpha: cmp.Or(p.Alpha, sr.DefaultAlpha)}
}

func newEC(c ec.Code) func(Params) (scheme.Scheme, error) {
	return func(p Params) (scheme.Scheme, error) {
		p = usedByEC(p)
		return ec.New(ec.Config{Code: c, K: p.K, M: p.M, Beta: p.Beta})
	}
}

func usedByEC(p Params) Params {
	return Params{Beta: cmp.Or(p.Beta, ec.DefaultBeta), Code: cmp.Or(p.Code, defaultCode)}
}

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
		return nil, operr.Argument("choose", "scheme", "%w", err)
	}
	return table[name].new(p)
}

// Reliable says whether transfers of the named scheme arrive whole; false for a name that isn't Known.
func Reliable(name string) bool {
	e, ok := table[name]
	return ok && !e.lossy
}

// Used returns the parameters that the named scheme uses, with its defaults; none for a name that isn't Known.
func Used(name string, p Params) Params {
	if e, ok := table[name]; ok {
		return e.used(p)
	}
	return Params{}
}
