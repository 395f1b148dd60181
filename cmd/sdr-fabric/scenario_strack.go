// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/sdr-rdma/go-sdr/congestion"
	"github.com/sdr-rdma/go-sdr/transport"
	"github.com/sdr-rdma/go-sdr/transport/strack"
)

// parseSTrack takes STrack's own window control unless another controller is asked for.
func parseSTrack(s string, cc congestion.Spec) (transport.Factory, error) {
	var c strack.Config
	window := congestion.STrackDefaults()
	err := setOptions(s, []option{
		{"oblivious", toTrue(&c.Oblivious)},
		{"paths=", positive(toInt(&c.Paths))},
		{"ack=", positive(c.AckBytes.Set)},
		{"prompt=", func(value string) error {
			prompts := map[string]strack.Prompt{"gaps": strack.PromptGaps, "marked": strack.PromptMarked, "expected": strack.PromptExpected}
			var ok bool
			if c.Prompt, ok = prompts[value]; !ok {
				return fmt.Errorf("%q: choose gaps, marked or expected", value)
			}
			return nil
		}},
		{"rto=", positive(toDuration(&c.RTO))},
		{"base=", positive(toDuration(&c.BaseRTT))},
		{"target=", positive(toDuration(&window.Target))},
		{"corruption=", toFloat(&c.Corruption)},
		{"wmax=", toFloat(&window.Max)},
		{"w0=", toFloat(&window.Initial)},
		{"gamma=", toFloat(&window.Gamma)},
	})
	if err != nil {
		return nil, err
	}
	window.BaseRTT = c.BaseRTT
	if c.Congestion = cc.New; cc.Name == "none" {
		if c.Congestion, err = congestion.STrack(window); err != nil {
			return nil, err
		}
	}
	return c.Factory()
}
