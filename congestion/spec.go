// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sdr-rdma/go-sdr/operr"
	"github.com/sdr-rdma/go-sdr/units"
)

// A Spec is a controller chosen by name.
type Spec struct {
	Name string // with everything that was chosen, as Parse took it
	New  Factory
	// CNPInterval is the least time between two notifications for a flow that the receiver should
	// keep to; 0: each marked packet may be notified. Devices on real packets keep to their own.
	CNPInterval units.Duration
	// Telemetry says that the controller decides by Ack.INT, which only a network that stamps packets
	// gives: package fabric's.
	Telemetry bool
	// PacketMarks says that the controller decides by Ack.ECN, whether the packet that was acknowledged carried a
	// mark. The transports of package fabric tell; the Conns of package reliability hear of marks by CNPs.
	PacketMarks bool
	// LineRate says that the controller begins at the line rate of its path, and finds no rate without it.
	LineRate bool
}

// CheckDevice says why a Conn on a device, which tells less than a simulated network, can't use the controller, if it can't. rate is what
// its sends are bounded by, 0 if nothing says.
func (s *Spec) CheckDevice(rate units.Rate) error {
	switch {
	case s.Telemetry:
		return errors.New("it decides by what switches write into packets, which only the networks of sdr-fabric tell: choose another")
	case s.PacketMarks:
		return errors.New("it decides by the mark of each packet, which only the acknowledgements of sdr-fabric carry: choose another")
	case s.LineRate && rate == 0:
		return errors.New("it begins at the line rate, which no device tells: give a rate, or choose auto, bbr or search")
	}
	return nil
}

// Names are the controllers that Parse knows.
func Names() []string {
	return []string{"auto", "none", "fixed", "bbr", "search", "dcqcn", "swift", "nscc", "hpcc"}
}

// Help describes what Parse takes, a line each.
const Help = `auto                        bbr; below 1 ms of round trip, and where the line's rate is known, only once a queue was full
none                        no limit
fixed:rate=25gbit           keeps to a rate, a window (window=64KiB) or both
bbr                         finds the rate of any path, and shares it
search                      finds the rate of a path that nobody else uses, from a round trip of 1 ms on
dcqcn[:sigcomm15|hpcc]      DCQCN with the constants of its paper (the default) or of HPCC's evaluation; single ones
                            by g=, alpha=, decrease=, rise=, bytes=, fast=, ai=, hai=, min=, clamp=, cnp=
swift                       Swift, for the paths of a data center; constants by target=, hop=, range=, flowmin=, flowmax=,
                            ai=, beta=, mdf=, reset=, min=, max=
nscc[:draft]                Ultra Ethernet's NSCC, or its simulator's before 1.0, by the mark of each packet (sdr-fabric only);
                            constants by base=, target=, w0= and wmax= (products of rate and round trip), gamma=
hpcc                        HPCC, by what switches write into packets (sdr-fabric only); constants by base=, eta=, stage=, ai=`

// Parse reads a controller's name, and behind a colon its preset and constants: "dcqcn",
// "dcqcn:hpcc", "dcqcn:hpcc,ai=100mbit", "fixed:rate=10gbit,window=1MiB", "swift:target=30us".
func Parse(s string) (Spec, error) {
	spec := Spec{Name: s}
	name, options, _ := strings.Cut(s, ":")
	set, err := splitOptions(options)
	if err != nil {
		return spec, operr.New("parse", fmt.Sprintf("congestion control %q", s), "%w", err)
	}
	switch name {
	case "auto":
		spec.New = Auto()
	case "none":
		spec.New = func(Path) Controller { return Fixed{} }
	case "fixed":
		var f Fixed
		set.quantity("rate", &f.Rate)
		set.quantity("window", &f.Window)
		if f == (Fixed{}) {
			set.fail("give it a limit, rate= or window= (none is the one without)")
		}
		spec.New = func(Path) Controller { return f }
	case "bbr":
		spec.New = BBR()
	case "search":
		spec.New = Search()
	case "dcqcn":
		spec.LineRate = true
		c := set.dcqcn()
		spec.CNPInterval = c.CNPInterval
		spec.New, err = DCQCN(c)
	case "swift":
		spec.New, err = Swift(set.swift())
	case "nscc":
		spec.PacketMarks = true
		spec.New, err = NSCC(set.nscc())
	case "hpcc":
		spec.Telemetry = true
		spec.New, err = HPCC(set.hpcc())
	default:
		return spec, operr.New("parse", fmt.Sprintf("congestion control %q", name), "it is unknown: choose one of %s", strings.Join(Names(), ", "))
	}
	if e := set.leftover(); e != nil {
		err = e // what was written wrong explains more than what it led to
	}
	if err != nil {
		return spec, operr.New("parse", fmt.Sprintf("congestion control %q", s), "%w", err)
	}
	return spec, nil
}

func (o *options) dcqcn() DCQCNConfig {
	c := DCQCNDefaults()
	switch o.preset {
	case "", "sigcomm15":
	case "hpcc":
		c = DCQCNOfHPCC()
	default:
		o.fail("preset %q is unknown: choose sigcomm15 or hpcc", o.preset)
	}
	o.preset = ""
	o.number("g", &c.G)
	o.quantity("alpha", (*units.DurationValue)(&c.AlphaInterval))
	o.quantity("decrease", (*units.DurationValue)(&c.DecreaseInterval))
	o.quantity("rise", (*units.DurationValue)(&c.RiseInterval))
	o.quantity("bytes", &c.RiseBytes)
	o.count("fast", &c.FastSteps)
	o.quantity("ai", &c.AI)
	o.quantity("hai", &c.HAI)
	o.quantity("min", &c.MinRate)
	o.quantity("cnp", (*units.DurationValue)(&c.CNPInterval))
	o.take("clamp", func(v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q: write true or false", v)
		}
		c.ClampTarget = b
		return nil
	})
	return c
}

func (o *options) swift() SwiftConfig {
	c := SwiftDefaults()
	o.quantity("target", (*units.DurationValue)(&c.BaseTarget))
	o.quantity("hop", (*units.DurationValue)(&c.HopDelay))
	o.quantity("range", (*units.DurationValue)(&c.FlowRange))
	o.number("flowmin", &c.FlowMin)
	o.number("flowmax", &c.FlowMax)
	o.number("ai", &c.AI)
	o.number("beta", &c.Beta)
	o.number("mdf", &c.MaxMDF)
	o.count("reset", &c.ResetAfter)
	o.number("min", &c.MinWindow)
	o.number("max", &c.MaxWindow)
	return c
}

func (o *options) nscc() NSCCConfig {
	c := NSCCDefaults()
	if o.preset == "draft" {
		c.Draft, o.preset = true, ""
	}
	o.quantity("base", (*units.DurationValue)(&c.BaseRTT))
	o.quantity("target", (*units.DurationValue)(&c.Target))
	o.number("w0", &c.Initial)
	o.number("wmax", &c.Max)
	o.number("gamma", &c.Gamma)
	return c
}

func (o *options) hpcc() HPCCConfig {
	c := HPCCDefaults()
	o.quantity("base", (*units.DurationValue)(&c.BaseRTT))
	o.number("eta", &c.Eta)
	o.count("stage", &c.MaxStage)
	o.quantity("ai", &c.AI)
	return c
}

// options are the parts behind the colon of a spec. Each is taken once; the first error stays.
type options struct {
	preset string
	keys   []string
	values map[string]string
	err    error
}

func splitOptions(s string) (*options, error) {
	o := &options{values: map[string]string{}}
	if s == "" {
		return o, nil
	}
	for i, part := range strings.Split(s, ",") {
		key, value, found := strings.Cut(part, "=")
		if !found && i == 0 {
			o.preset = part
			continue
		}
		if _, twice := o.values[key]; !found || key == "" || twice {
			return nil, fmt.Errorf("%q: write each constant once, as name=value", part)
		}
		o.keys, o.values[key] = append(o.keys, key), value
	}
	return o, nil
}

func (o *options) fail(format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf(format, args...)
	}
}

func (o *options) take(key string, parse func(string) error) {
	i := slices.Index(o.keys, key)
	if i < 0 {
		return
	}
	o.keys = slices.Delete(o.keys, i, i+1)
	if err := parse(o.values[key]); err != nil {
		o.fail("%s: %w", key, err)
	}
}

// quantity takes a rate, size or time.
func (o *options) quantity(key string, to interface{ Set(string) error }) { o.take(key, to.Set) }

func (o *options) number(key string, to *float64) {
	o.take(key, func(v string) error {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", v)
		}
		*to = f
		return nil
	})
}

func (o *options) count(key string, to *int) {
	o.take(key, func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("%q is no whole number", v)
		}
		*to = n
		return nil
	})
}

// leftover complains of what nothing took.
func (o *options) leftover() error {
	if o.preset != "" {
		o.fail("it has no preset %q", o.preset)
	}
	if len(o.keys) > 0 {
		o.fail("it has no constant %q", o.keys[0])
	}
	return o.err
}
