// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
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

func parseDCP(s string, cc congestion.Spec) (transport.Factory, error) {
	var c dcp.Config
	if cc.Name != "none" {
		c.Congestion, c.CNPInterval = cc.New, cc.CNPInterval
	}
	for _, o := range options(s) {
		var err error
		switch o.name {
		case "track":
			if o.value != "bitmap" && o.value != "counter" {
				err = fmt.Errorf("%q: choose counter or bitmap", o.value)
			} else if o.value == "bitmap" {
				c.Track = dcp.Bitmap
			}
		case "ho":
			if c.Published = o.value == "57"; !c.Published && o.value != "60" {
				err = fmt.Errorf("%q: choose 60, or 57 as published", o.value)
			}
		case "message":
			c.Message, err = strconv.Atoi(o.value)
		case "batch":
			c.Batch, err = strconv.Atoi(o.value)
		case "retries":
			c.Retries, err = strconv.Atoi(o.value)
		case "rto":
			err = (*units.DurationValue)(&c.RTO).Set(o.value)
		default:
			err = fmt.Errorf("unknown: choose track=, ho=, message=, batch=, retries= or rto=")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
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
	for _, o := range options(rest) {
		var err error
		switch o.name {
		case "n":
			var n int
			if n, err = strconv.Atoi(o.value); err == nil {
				t.Weight, err = trim.Weight(n, trim.NS3.Ratio(full, t.Header))
			}
		case "w":
			t.Weight, err = strconv.ParseFloat(o.value, 64)
		case "threshold":
			size, of, scaled := strings.Cut(o.value, "@")
			if err = t.Threshold.Set(size); err == nil && scaled {
				t.Of, err = units.ParseRate(of)
			}
		case "acks":
			if t.SafeAcks = o.value == "safe"; !t.SafeAcks {
				err = fmt.Errorf("%q: only safe can be written; without it they are dropped where data are trimmed", o.value)
			}
		case "control":
			err = t.ControlLimit.Set(o.value)
		default:
			err = fmt.Errorf("unknown: choose n=, w=, acks=, threshold= or control=")
		}
		if err != nil {
			return nil, fmt.Errorf("trim %q: %s: %w", s, o.name, err)
		}
	}
	if t.Weight == 0 {
		return nil, fmt.Errorf("trim %q: say the weight of headers, such as n=16 or w=2.2", s)
	}
	return t, nil
}
