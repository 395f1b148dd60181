// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A suffix multiplies the number before it.
type suffix struct {
	name string
	mult int64
}

var byteSuffixes = []suffix{
	{"tib", int64(TiB)}, {"gib", int64(GiB)}, {"mib", int64(MiB)}, {"kib", int64(KiB)},
	{"tb", 1e12}, {"gb", int64(GB)}, {"mb", int64(MB)}, {"kb", int64(KB)},
	{"t", int64(TiB)}, {"g", int64(GiB)}, {"m", int64(MiB)}, {"k", int64(KiB)},
	{"b", 1}, {"", 1},
}

var rateSuffixes = []suffix{
	{"tbit", 1e12}, {"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1},
	{"tbps", 1e12}, {"gbps", 1e9}, {"mbps", 1e6}, {"kbps", 1e3}, {"bps", 1},
	{"t", 1e12}, {"g", 1e9}, {"m", 1e6}, {"k", 1e3}, // as iperf3's
}

var durationSuffixes = []suffix{
	{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9},
}

// parse reads a non-negative decimal number with one of the suffixes. The
// product is exact and must be a whole number of the base unit that fits int64.
func parse(s string, table []suffix, what, example string) (int64, error) {
	t := strings.TrimSpace(s)
	// No more than this, because big.Rat would also read fractions, and exponents of any size.
	cut := strings.IndexFunc(t, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '-' && r != '+' })
	num, suf := t, ""
	if cut >= 0 {
		num, suf = t[:cut], strings.ToLower(strings.TrimSpace(t[cut:]))
	}
	bad := func(why string) (int64, error) {
		return 0, fmt.Errorf("%s %q: %s (write it like %s)", what, s, why, example)
	}
	v, ok := new(big.Rat).SetString(num)
	if !ok {
		return bad("not a number")
	}
	if v.Sign() < 0 {
		return bad("must not be negative")
	}
	for _, x := range table {
		if x.name != suf {
			continue
		}
		v.Mul(v, new(big.Rat).SetInt64(x.mult))
		if !v.IsInt() {
			return bad("smaller than the base unit or not a whole number of it")
		}
		if !v.Num().IsInt64() || v.Num().Int64() == math.MaxInt64 {
			return bad("too large")
		}
		return v.Num().Int64(), nil
	}
	if suf == "" {
		if v.Sign() == 0 {
			return 0, nil
		}
		return bad("the unit is missing")
	}
	return bad("unknown unit " + strconv.Quote(suf))
}

// ParseBytes reads a size such as "0", "4096", "64KiB", "1.5GiB" or "100MB".
// A bare k, m, g or t is binary, as in perftest.
func ParseBytes(s string) (Bytes, error) {
	v, err := parse(s, byteSuffixes, "size", "4096, 64KiB or 1GiB")
	return Bytes(v), err
}

// ParseRate reads a rate in bits per second such as "1gbit", "2.5Gbps" or
// "400gbit/s".
func ParseRate(s string) (Rate, error) {
	v, err := parse(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "/s"), rateSuffixes, "rate", "100mbit or 1gbit")
	return Rate(v), err
}

// ParseDuration reads a duration such as "25ms", "1.5s" or "20us".
func ParseDuration(s string) (Duration, error) {
	v, err := parse(s, durationSuffixes, "time", "20us, 25ms or 5s")
	return Duration(v), err
}

// A scale is a unit to print in.
type scale struct {
	name string
	size int64
}

// From the smallest to the largest.
var (
	byteScales     = []scale{{"B", 1}, {"KiB", int64(KiB)}, {"MiB", int64(MiB)}, {"GiB", int64(GiB)}, {"TiB", int64(TiB)}}
	rateScales     = []scale{{"bit/s", 1}, {"kbit/s", int64(Kbit)}, {"Mbit/s", int64(Mbit)}, {"Gbit/s", int64(Gbit)}, {"Tbit/s", int64(Tbit)}}
	durationScales = []scale{{"ns", 1}, {"µs", int64(Microsecond)}, {"ms", int64(Millisecond)}, {"s", int64(Second)}}
)

// scaled prints v in the largest unit of which it has one, as it is printed: 1023.99 KiB are 1 MiB.
func scaled(v int64, scales []scale) string {
	in := func(u scale) string { return trim(float64(v) / float64(u.size)) }
	use := scales[0]
	for _, u := range scales[1:] {
		if printed, _ := strconv.ParseFloat(in(use), 64); printed < float64(u.size/use.size) {
			break
		}
		use = u
	}
	return in(use) + " " + use.name
}

// String prints b with a binary unit and at most two decimals, such as "1.5 GiB".
func (b Bytes) String() string {
	if b < 0 {
		return "-" + (-max(b, -math.MaxInt64)).String() // the least value has no opposite
	}
	return scaled(int64(b), byteScales)
}

// String prints r with a decimal unit, such as "1 Gbit/s".
func (r Rate) String() string {
	if r < 0 {
		return "-" + (-max(r, -math.MaxInt64)).String()
	}
	return scaled(int64(r), rateScales)
}

// FormatDuration prints d with three significant digits or so, such as "25 ms", for tables and
// sentences that people read. Duration's own String prints each digit.
func FormatDuration(d Duration) string {
	if d < 0 {
		return "-" + FormatDuration(-max(d, -math.MaxInt64))
	}
	return scaled(int64(d), durationScales)
}

func trim(v float64) string {
	prec := 2
	if v >= 100 {
		prec = 1
	}
	s := strconv.FormatFloat(v, 'f', prec, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Set and Type make the types usable as command-line flag values.

// Set parses s into b.
func (b *Bytes) Set(s string) (err error) { *b, err = ParseBytes(s); return }

// Type names the kind of flag.
func (b *Bytes) Type() string { return "size" }

// Set parses s into r.
func (r *Rate) Set(s string) (err error) { *r, err = ParseRate(s); return }

// Type names the kind of flag.
func (r *Rate) Type() string { return "rate" }

// A DurationValue makes a Duration usable as a command-line flag value that reads and prints times as
// this package does: fs.Var((*units.DurationValue)(&d), "rtt", "the round trip").
type DurationValue Duration

// Set parses s into d.
func (d *DurationValue) Set(s string) error {
	v, err := ParseDuration(s)
	*d = DurationValue(v)
	return err
}

// String prints d as FormatDuration does.
func (d *DurationValue) String() string { return FormatDuration(Duration(*d)) }

// Type names the kind of flag.
func (d *DurationValue) Type() string { return "time" }
