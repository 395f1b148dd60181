// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestParseRefuses(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                    "choose star, leafspine, fattree or dc2, or name a file that there is",
		"ring:5":                              `unknown kind "ring"`,
		"star:many":                           "write it like star:16",
		"star:-3":                             "write it like star:16",
		"leafspine:128x64":                    "write it like leafspine:16x8x8",
		"leafspine:4x4x4,fast":                "neither a rate such as 400G nor a delay such as 1us",
		"leafspine:4x4x4,400G,100G":           "the rate is given twice",
		"leafspine:4x4x4,oversub=4,oversub=2": "oversub is given twice",
		"leafspine:4x4x4,oversub=3":           "doesn't divide 4 spines",
		"leafspine:4x4x4,oversub=0":           "write it like oversub=4",
		"leafspine:4x4x4,fail=4":              "fail=16x4 (leaves x links)",
		"leafspine:4x4x4,fail=5x1":            "within 0 and 4",
		"leafspine:4x4x4,fail=1x4":            "so that one of 4 is left",
		"leafspine:4x4x4,slow=5x4":            "5 spines slower by 4",
		"leafspine:4x4x4,slow=2":              "slow=1x4 (spines x how much slower)",
		"leafspine:4x4x4,speed=3":             "choose up=, updelay=, oversub=, rails=, slow= or fail=",
		"leafspine:99999x99999x1":             "choose smaller numbers",
		"fattree:8,up=400G":                   "it takes a rate and a delay",
		"fattree:7":                           "even number from 2 to 128",
		"dc2:far":                             `time "far"`,
		"leafspine:16x2x2,fail=16x1":          "no working path from host h0 to host h2",
		"star:3,0gbit":                        "its rate is 0",
	} {
		_, err := Parse(spec)
		require.ErrorContains(t, err, want, spec)
		require.NotContains(t, err.Error(), "\n", spec)
	}
}

// Every kind of the help can be parsed, and every kind that can be parsed is in the help.
func TestHelp(t *testing.T) {
	for _, spec := range []string{"star:4", "leafspine:16x2x8,up=1T,updelay=2us,oversub=2,fail=16x1", "fattree:4,400gbit,500ns", "dc2"} {
		_, err := Parse(spec)
		require.NoError(t, err)
		kind, _, _ := strings.Cut(spec, ":")
		require.Contains(t, Help, kind)
	}
}

// What parses is a network that can be, and of a size that was asked for.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"star:4,100G", "leafspine:4x2x4,400G,1us,oversub=2,fail=2x1,up=100gbit,updelay=1ms", "fattree:4", "dc2:1ms", "leafspine:999999999x99999999x9",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		if len(spec) > 60 {
			return
		}
		g, err := Parse(spec)
		if err != nil {
			require.NotContains(t, strings.ReplaceAll(err.Error(), spec, ""), "\n")
			return
		}
		require.NoError(t, g.Validate())
	})
}

// A slow spine's links have a part of the rate, the others all of it.
func TestSlowSpine(t *testing.T) {
	g, err := Parse("leafspine:4x2x8,400G,slow=1x4")
	require.NoError(t, err)
	rates := map[units.Rate]int{}
	for _, l := range g.Links {
		rates[l.Rate]++
	}
	require.Equal(t, map[units.Rate]int{400 * units.Gbit: 4*2 + 4*7, 100 * units.Gbit: 4}, rates)
}
