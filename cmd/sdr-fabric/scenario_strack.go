// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/strack"
	"github.com/sdr-rdma/go-sdr/units"
)

// parseSTrack takes STrack's own window control unless another controller is asked for.
func parseSTrack(s string, cc congestion.Spec) (transport.Factory, error) {
	var c strack.Config
	window := congestion.STrackDefaults()
	for _, o := range options(s) {
		var err error
		switch o.name {
		case "oblivious":
			c.Oblivious = true
		case "paths":
			c.Paths, err = strconv.Atoi(o.value)
		case "ack":
			err = c.AckBytes.Set(o.value)
		case "prompt":
			prompts := map[string]strack.Prompt{"gaps": strack.PromptGaps, "marked": strack.PromptMarked, "expected": strack.PromptExpected}
			var ok bool
			if c.Prompt, ok = prompts[o.value]; !ok {
				err = fmt.Errorf("%q: choose gaps, marked or expected", o.value)
			}
		case "rto":
			err = (*units.DurationValue)(&c.RTO).Set(o.value)
		case "base":
			err = (*units.DurationValue)(&c.BaseRTT).Set(o.value)
			window.BaseRTT = c.BaseRTT
		case "target":
			err = (*units.DurationValue)(&window.Target).Set(o.value)
		case "corruption":
			c.Corruption, err = strconv.ParseFloat(o.value, 64)
		case "wmax":
			window.Max, err = strconv.ParseFloat(o.value, 64)
		case "w0":
			window.Initial, err = strconv.ParseFloat(o.value, 64)
		case "gamma":
			window.Gamma, err = strconv.ParseFloat(o.value, 64)
		default:
			err = fmt.Errorf("unknown: choose oblivious, paths=, ack=, prompt=, rto=, base=, target=, corruption=, wmax=, w0= or gamma=")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	if c.Congestion = cc.New; cc.Name == "none" {
		var err error
		if c.Congestion, err = congestion.STrack(window); err != nil {
			return nil, err
		}
	}
	return c.Factory()
}
