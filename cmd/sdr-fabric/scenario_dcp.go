// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/fabric"
	"github.com/sdr-rdma/go-sdr/switchfn/trim"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/dcp"
	"github.com/sdr-rdma/go-sdr/units"
)

const trimHelp = `SIZE,n=N[,OPTION...]          headers of SIZE on the wire; a weight that N-1 ports to one can't overload (DCP)
     w=1.5                    instead of n: the weight itself, in bytes, over that of data
     acks=safe                acknowledgements go with the headers, not with the data
     threshold=SIZE[@RATE] control=SIZE  of data from which on it trims, and of headers; default: what --buffer allows;
                  with a rate, ports of others have a threshold in proportion`

// parseDCP takes controllers that live on what DCP's sender hears: notifications, returned headers and timeouts.
func parseDCP(s string, cc congestion.Spec) (transport.Factory, error) {
	if name, _, _ := strings.Cut(cc.Name, ":"); !slices.Contains([]string{"none", "fixed", "dcqcn"}, name) {
		return nil, fmt.Errorf("it acknowledges messages, not packets, of which this controller would have to hear: choose --cc none, fixed or dcqcn")
	}
	var c dcp.Config
	if cc.Name != "none" {
		c.Congestion, c.CNPInterval = cc.New, cc.CNPInterval
	}
	err := setOptions(s, []option{
		{"track=", func(value string) error {
			tracks := map[string]dcp.Track{"counter": dcp.Counter, "bitmap": dcp.Bitmap}
			var ok bool
			if c.Track, ok = tracks[value]; !ok {
				return fmt.Errorf("%q: choose counter or bitmap", value)
			}
			return nil
		}},
		{"ho=", func(value string) error {
			if c.Published = value == "57"; !c.Published && value != "60" {
				return fmt.Errorf("%q: choose 60, or 57 as published", value)
			}
			return nil
		}},
		{"message=", positive(toInt(&c.Message))},
		{"batch=", positive(toInt(&c.Batch))},
		{"retries=", positive(toInt(&c.Retries))},
		{"rto=", positive(toDuration(&c.RTO))},
	})
	if err != nil {
		return nil, err
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c.Factory(), nil
}

// parseTrim takes the size of a full packet for the weight.
func parseTrim(s string, full units.Bytes) (*fabric.Trim, error) {
	if s == "" {
		return nil, nil
	}
	size, rest, _ := strings.Cut(s, ",")
	t := &fabric.Trim{}
	if err := t.Header.Set(size); err != nil || t.Header < 1 {
		return nil, fmt.Errorf("trim %q: write the size of headers first, such as 60,n=16", s)
	}
	err := setOptions(rest, []option{
		{"n=", func(value string) error {
			var n int
			err := toInt(&n)(value)
			if err == nil {
				t.Weight, err = trim.Weight(n, trim.NS3.Ratio(full, t.Header))
			}
			return err
		}},
		{"w=", toFloat(&t.Weight)},
		{"acks=", only("safe", "they are dropped where data are trimmed", &t.SafeAcks)},
		{"threshold=", func(value string) error {
			size, of, scaled := strings.Cut(value, "@")
			err := t.Threshold.Set(size)
			if err == nil && scaled {
				t.ThresholdRate, err = units.ParseRate(of)
			}
			return err
		}},
		{"control=", t.ControlLimit.Set},
	})
	if err != nil {
		return nil, fmt.Errorf("trim %q: %w", s, err)
	}
	if t.Weight == 0 {
		return nil, fmt.Errorf("trim %q: say the weight of headers, such as n=16 or w=2.2", s)
	}
	return t, nil
}
