// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sdr-rdma/go-sdr/cmd/internal/usage"
	"github.com/sdr-rdma/go-sdr/units"
)

// What people type who know perftest, iperf3 or qperf: underscores for hyphens, bare seconds, percentages, tests
// as words, flags of those programs.

// withHyphens makes underscores and hyphens the same, and knows the foreign names of our flags. qperf's of one end (--loc_id,
// --rem_id) are answered as those of both.
func withHyphens(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "loc-"), "rem-")
	if ours, ok := asOurs[name]; ok {
		name = ours
	}
	return pflag.NormalizedName(name)
}

// translate replaces arguments that pflag would take apart into letters.
func translate(args []string) []string {
	ours := ownFlags()
	out := make([]string, len(args))
	for i, a := range args {
		if a == "--" {
			copy(out[i:], args[i:])
			break
		}
		if out[i] = longName(a); out[i] == a && isLong(ours, a) {
			out[i] = "-" + a
		}
	}
	return out
}

// ownFlags are all flags of a measurement, with their defaults, by the names that others have for them, too.
func ownFlags() *pflag.FlagSet {
	f, p := pflag.NewFlagSet("", pflag.ContinueOnError), defaultParams()
	f.SetNormalizeFunc(withHyphens)
	p.register(f)
	new(local).register(f)
	return f
}

// isLong reports whether an argument is a flag of ours behind one hyphen, as Go's package flag has it: -rtt 5ms would be perftest's -r tt, and a HOST.
func isLong(ours *pflag.FlagSet, arg string) bool {
	after, isFlag := strings.CutPrefix(arg, "-")
	name, _, _ := strings.Cut(after, "=")
	return isFlag && len(name) > 1 && name[0] != '-' && ours.Lookup(name) != nil
}

// longName is that of a flag of qperf's, also of one that is for one end (-lca, -rca); what is none stays as it is.
func longName(arg string) string {
	if long, ok := severalLetters[arg]; ok {
		return long
	}
	if len(arg) > 2 && arg[0] == '-' && (arg[1] == 'l' || arg[1] == 'r') {
		if long, ok := severalLetters["-"+arg[2:]]; ok {
			return long
		}
	}
	return arg
}

// checkArgs answers foreign flags, and finds out what is meant when there is more than a HOST.
func checkArgs(met *strangers) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(met.refused) > 0 {
			return errors.Join(met.refused[:1]...)
		}
		for _, a := range args {
			if a == "" { // as "$HOST" is where nothing has set it: a server would wait for ever
				return usage.Errorf("HOST is empty: give the name or the address of the server, or nothing to be one")
			}
			if test, ok := qperfTest(a); ok {
				return usage.Errorf("%s: %s", a, test)
			}
			if _, err := units.ParseRate(a); err == nil {
				return usage.Errorf("%s is no HOST: iperf3's -b RATE is --rate %s here, and -b is both directions", a, a)
			}
			if _, err := units.ParseBytes(a); err == nil && len(args) > 1 {
				return usage.Errorf("%s is no HOST, and its flag takes no argument: sdr-perf --help lists all flags", a)
			}
		}
		if len(args) > 1 {
			return usage.Errorf("accepts at most 1 arg, the HOST, received %d: %s", len(args), printable(strings.Join(args, " ")))
		}
		return nil
	}
}

// qperfTest says what does the same as a test of qperf.
func qperfTest(word string) (string, bool) {
	kind, what, ok := strings.Cut(word, "_")
	known := map[string]bool{"rc": true, "uc": true, "ud": true, "xrc": true, "tcp": true, "udp": true, "sctp": true, "rds": true, "sdp": true, "ver": true}
	switch {
	case word == "conf" || word == "quit":
		return "sdr-perf doctor says what this machine can; a server ends after one client", true
	case !ok || !known[kind]:
		return "", false
	case kind == "tcp" || kind == "sctp" || kind == "rds" || kind == "sdp":
		return "only RoCEv2 is measured: iperf3 or qperf measure " + kind, true
	case strings.Contains(what, "compare") || strings.Contains(what, "fetch") || strings.Contains(what, "read"):
		return noAtomics, true
	case strings.HasSuffix(what, "lat"):
		return "sdr-perf --latency -s SIZE HOST measures latency", true
	case strings.HasSuffix(what, "bi_bw"):
		return "sdr-perf -b -t 16 -s SIZE HOST measures both directions", true
	case strings.HasSuffix(what, "bw"):
		return "sdr-perf -t 16 -s SIZE HOST measures bandwidth", true
	}
	return "", false
}

// seconds is a flag for a time that may be a bare number of seconds.
type seconds struct{ d *units.Duration }

// Set reads "10" or what units.ParseDuration takes.
func (s seconds) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := units.ParseDuration(text)
	if err == nil {
		*s.d = d
	}
	return err
}

func (s seconds) Type() string   { return "duration" }
func (s seconds) String() string { return units.FormatDuration(*s.d) }

// probability is a flag for a part of 1, which may be in percent.
type probability struct{ p *float64 }

// Set reads "0.01" or "1%".
func (p probability) Set(text string) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q: want a probability, such as 0.001, 1e-3 or 0.1%%", text)
	}
	if percent {
		v /= 100
	}
	*p.p = v
	return nil
}

func (p probability) Type() string { return "probability" }

func (p probability) String() string {
	if p.p == nil || *p.p == 0 {
		return ""
	}
	return strconv.FormatFloat(*p.p, 'g', -1, 64)
}
