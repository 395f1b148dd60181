// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// An Env is what a specification is applied to.
type Env struct {
	Hosts []int                     // the nodes that are hosts
	Rate  units.Rate                // of a host's link
	Rates func(host int) units.Rate // of one host's link, where they differ; nil: all have Rate
	Seed  uint64
	// Open opens a file that a specification names.
	Open func(name string) (io.ReadCloser, error)
}

// Help describes what Parse takes, a line each.
const Help = `incast:N,SIZE[,to=HOST][,jitter=TIME]      N hosts send SIZE to one, by default the first
perm:SIZE[,qps=N]                          each host sends SIZE to one other and receives from one, over N flows
halves:SIZE                                each host of the first half sends SIZE to one of the second
ring|hd|dbt|a2a:SIZE[,OPTION...]           allreduce as ring, halving-doubling or double binary tree; all-to-all; SIZE is a rank's data
     ranks=N jobs=N                        of a job; how many run at once, on hosts drawn from the seed
     chunk=SIZE active=N                   of rings and trees; chunks on an edge, or messages of a rank, under way at once
     jitter=TIME place=inorder             of a job's start; ranks on hosts in their order
     server=N                              N hosts in a row have ranks in a row, where servers are drawn instead of hosts
     qps=N conns=kept                      flows that share each message; they live on over all messages between two ranks
poisson:SIZES,LOAD,TIME                    messages arrive for TIME and fill LOAD (such as 0.7) of the hosts' links
lognormal:SIZES,LOAD,TIME[,sigma=2]        the same in bursts
     SIZES is WebSearch, FbHdp, AliStorage or a file with a size and a percentage a line
burst:N,SIZE,LOAD,TIME                     incasts at random times: N drawn hosts send SIZE to one; they fill LOAD of the links
pipeline:SIZE,LOAD,TIME[,stages=2]         micro-batches through pipelines of hosts and their gradients back, each SIZE
ns3:FILE                                   flow.txt of ns-3
htsim:FILE                                 connection matrix (.cm) of htsim: messages that wait for others, as those of a collective of your own
LOAD;LOAD                                  both at once; reported as groups 0, 1, …`

// Parse makes the flows that a specification such as "perm:16MiB" or "poisson:WebSearch,0.7,30ms"
// describes. Errors are one line and name what to write instead.
func Parse(spec string, e Env) ([]Flow, error) {
	flows, err := parseAll(spec, e)
	if err == nil && len(flows) == 0 {
		err = errors.New("there are no messages in it")
	}
	if err == nil {
		hosts := make(map[int]bool, len(e.Hosts))
		for _, h := range e.Hosts {
			hosts[h] = true
		}
		err = Validate(flows, func(n int) bool { return hosts[n] })
	}
	if err != nil {
		return nil, operr.New("parse", fmt.Sprintf("load %q", spec), "%w", err)
	}
	return flows, nil
}

// parseAll joins loads that are separated by semicolons.
func parseAll(spec string, e Env) (all []Flow, err error) {
	parts := strings.Split(spec, ";")
	if len(parts) == 1 {
		return parse(spec, e)
	}
	if len(parts) > mostParts {
		return nil, fmt.Errorf("%d loads at once: at most %d", len(parts), mostParts)
	}
	for i, part := range parts {
		of := e
		of.Seed += uint64(i) << 32 // two of a kind differ
		flows, err := parse(part, of)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", part, err)
		}
		first := int32(len(all))
		if len(all)+len(flows) > MaxFlows {
			return nil, fmt.Errorf("more than %d flows", MaxFlows)
		}
		for _, f := range flows {
			after := make([]int32, len(f.After))
			for j, a := range f.After {
				after[j] = a + first
			}
			f.After, f.Group = after, uint16(i)
			if f.Conn != 0 {
				f.Conn += uint16(i * mostQPs) // loads have connections of their own
			}
			all = append(all, f)
		}
	}
	return all, nil
}

const mostParts = 16

var collectives = map[string]Collective{"ring": Ring, "hd": HalvingDoubling, "dbt": DoubleBinaryTree, "a2a": AllToAllCollective}

func parse(spec string, e Env) ([]Flow, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	switch kind {
	case "ns3":
		return fromFile(rest, e, ReadNS3)
	case "htsim":
		return fromFile(rest, e, ReadHtsim)
	}
	a, err := splitArguments(rest)
	if err != nil {
		return nil, err
	}
	var flows []Flow
	switch kind {
	case "incast":
		flows, err = a.incast(e)
	case "perm":
		flows, err = a.permutation(e)
	case "halves":
		flows, err = a.halves(e)
	case "ring", "hd", "dbt", "a2a":
		flows, err = a.collective(collectives[kind], e)
	case "poisson", "lognormal":
		flows, err = a.arrivals(kind == "lognormal", e)
	case "burst":
		flows, err = a.bursts(e)
	case "pipeline":
		flows, err = a.pipelines(e)
	default:
		return nil, fmt.Errorf("unknown kind %q: choose incast, perm, halves, ring, hd, dbt, a2a, poisson, lognormal, burst, pipeline, ns3 or htsim", kind)
	}
	if a.err != nil {
		return nil, a.err // what was written wrong explains more than what it led to
	}
	return flows, err
}

func fromFile(name string, e Env, read func(io.Reader) ([]Flow, error)) ([]Flow, error) {
	f, err := e.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return read(f)
}

func (a *arguments) incast(e Env) ([]Flow, error) {
	var n, to int
	var size units.Bytes
	var jitter units.Duration
	a.positional("N and SIZE, such as 32,16MiB", a.whole(&n), size.Set)
	a.named(map[string]func(string) error{"to": a.whole(&to), "jitter": (*units.DurationValue)(&jitter).Set})
	if a.err != nil {
		return nil, a.err
	}
	return Incast(e.Hosts, n, to, size, jitter, e.Seed)
}

func (a *arguments) permutation(e Env) ([]Flow, error) {
	var size units.Bytes
	qps := 1
	a.positional("SIZE, such as 16MiB", size.Set)
	a.named(map[string]func(string) error{"qps": a.whole(&qps)})
	if a.err != nil {
		return nil, a.err
	}
	return Permutation(e.Hosts, size, qps, e.Seed)
}

func (a *arguments) halves(e Env) ([]Flow, error) {
	var size units.Bytes
	a.positional("SIZE, such as 16MiB", size.Set)
	a.named(nil)
	if a.err != nil {
		return nil, a.err
	}
	return Halves(e.Hosts, size)
}

func (a *arguments) collective(c Collective, e Env) ([]Flow, error) {
	j := Jobs{Collective: c, Jobs: 1}
	a.positional("SIZE, such as 100MB", j.Size.Set)
	a.named(map[string]func(string) error{
		"ranks": a.whole(&j.Ranks), "jobs": a.whole(&j.Jobs), "active": a.whole(&j.Active), "qps": a.whole(&j.QPs), "server": a.whole(&j.Server),
		"chunk": j.Chunk.Set, "jitter": (*units.DurationValue)(&j.Jitter).Set,
		"conns": func(v string) error {
			if v != "kept" {
				return fmt.Errorf("%q: only kept can be written; without it each message has connections of its own", v)
			}
			j.Kept = true
			return nil
		},
		"place": func(v string) error {
			if v != "inorder" {
				return fmt.Errorf("%q: only inorder can be written; without it ranks are placed at random", v)
			}
			j.InOrder = true
			return nil
		},
	})
	if a.err != nil {
		return nil, a.err
	}
	return j.Flows(e.Hosts, e.Seed)
}

func (a *arguments) arrivals(lognormal bool, e Env) ([]Flow, error) {
	r := Arrivals{Rate: e.Rate, Rates: e.Rates}
	a.positional("SIZES, LOAD and TIME, such as WebSearch,0.7,30ms",
		func(v string) (err error) { r.Sizes, err = openCDF(v, e); return },
		number(&r.Load), (*units.DurationValue)(&r.Duration).Set)
	if lognormal {
		r.Sigma = 2
		a.named(map[string]func(string) error{"sigma": number(&r.Sigma)})
	} else {
		a.named(nil)
	}
	if a.err != nil {
		return nil, a.err
	}
	return r.Flows(e.Hosts, e.Seed)
}

func (a *arguments) bursts(e Env) ([]Flow, error) {
	b := Bursts{Rate: e.Rate, Rates: e.Rates}
	a.positional("N, SIZE, LOAD and TIME, such as 8,32kB,0.3,30ms", a.whole(&b.Senders), b.Size.Set, number(&b.Load), (*units.DurationValue)(&b.Duration).Set)
	a.named(nil)
	if a.err != nil {
		return nil, a.err
	}
	return b.Flows(e.Hosts, e.Seed)
}

func (a *arguments) pipelines(e Env) ([]Flow, error) {
	p := Pipelines{Stages: 2, Rate: e.Rate, Rates: e.Rates}
	a.positional("SIZE, LOAD and TIME, such as 1MB,0.2,30ms", p.Size.Set, number(&p.Load), (*units.DurationValue)(&p.Duration).Set)
	a.named(map[string]func(string) error{"stages": a.whole(&p.Stages)})
	if a.err != nil {
		return nil, a.err
	}
	return p.Flows(e.Hosts, e.Seed)
}

func openCDF(name string, e Env) (*CDF, error) {
	if c, ok := BuiltinCDF(name); ok {
		return c, nil
	}
	f, err := e.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w (built in are %s)", err, strings.Join(CDFNames(), ", "))
	}
	defer f.Close() //nolint:errcheck // opened for reading
	return ReadCDF(f)
}

// arguments are the parts behind the colon of a specification: some without a name, then name=value.
// The first error stays.
type arguments struct {
	bare  []string
	value map[string]string
	err   error
}

func splitArguments(s string) (*arguments, error) {
	a := &arguments{value: map[string]string{}}
	for _, part := range strings.Split(s, ",") {
		name, value, found := strings.Cut(part, "=")
		if !found {
			if len(a.value) > 0 {
				return nil, fmt.Errorf("%q stands behind a name=value: put it first", part)
			}
			a.bare = append(a.bare, part)
			continue
		}
		if _, twice := a.value[name]; twice {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		a.value[name] = value
	}
	return a, nil
}

func (a *arguments) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

func (a *arguments) positional(want string, set ...func(string) error) {
	if len(a.bare) != len(set) {
		a.fail(fmt.Errorf("it takes %s", want))
		return
	}
	for i, f := range set {
		if err := f(a.bare[i]); err != nil {
			a.fail(err)
		}
	}
}

func (a *arguments) named(set map[string]func(string) error) {
	for _, name := range slices.Sorted(maps.Keys(a.value)) {
		f, ok := set[name]
		if !ok {
			known := strings.Join(slices.Sorted(maps.Keys(set)), "=, ")
			if known == "" {
				known = "none"
			} else {
				known += "="
			}
			a.fail(fmt.Errorf("unknown option %q: it takes %s", name, known))
			return
		}
		if err := f(a.value[name]); err != nil {
			a.fail(fmt.Errorf("%s: %w", name, err))
		}
	}
}

func (a *arguments) whole(to *int) func(string) error {
	return func(v string) error {
		n, ok := atoi(v, MaxFlows)
		if !ok {
			return fmt.Errorf("%q: want a whole number from 0 to %d", v, MaxFlows)
		}
		*to = n
		return nil
	}
}

func number(to *float64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", v)
		}
		*to = n
		return nil
	}
}
