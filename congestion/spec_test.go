// SPDX-License-Identifier: Apache-2.0

package congestion

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/units"
)

func TestParse(t *testing.T) {
	path := Path{LineRate: 100 * units.Gbit, BaseRTT: 10 * units.Microsecond, MTU: 4096}
	s, err := Parse("dcqcn:hpcc,ai=200mbit,clamp=true,cnp=50us,rise=300us")
	require.NoError(t, err)
	require.Equal(t, 50*units.Microsecond, s.CNPInterval)
	want := DCQCNOfHPCC()
	want.AI, want.ClampTarget, want.CNPInterval, want.RiseInterval = 200*units.Mbit, true, 50*units.Microsecond, 300*units.Microsecond
	require.Equal(t, want, s.New(path).(*dcqcn).c.DCQCNConfig)

	s, err = Parse("dcqcn")
	require.NoError(t, err)
	require.Equal(t, DCQCNDefaults(), s.New(path).(*dcqcn).c.DCQCNConfig)

	s, err = Parse("swift:target=30us,max=64,reset=3")
	require.NoError(t, err)
	require.Zero(t, s.CNPInterval)
	sw := s.New(path).(*swift)
	require.Equal(t, 30*units.Microsecond, sw.target)
	require.Equal(t, windowOf(64, 4096), sw.high)
	require.Equal(t, 3, sw.resetAfter)

	s, err = Parse("hpcc:base=9us,eta=0.9,stage=3,ai=1KiB")
	require.NoError(t, err)
	require.True(t, s.Telemetry)
	h := s.New(path).(*hpcc)
	require.Equal(t, 9*units.Microsecond, h.base)
	require.InDelta(t, 0.9*(1<<loadShift), float64(h.eta), 1)
	require.Equal(t, 3, h.maxStage)
	require.Equal(t, window(units.KiB)<<windowShift, h.ai)

	s, err = Parse("nscc:draft,gamma=0.5")
	require.NoError(t, err)
	require.True(t, s.New(path).(*nscc).draft)
	s, err = Parse("nscc")
	require.NoError(t, err)
	require.False(t, s.New(path).(*nscc).draft)

	s, err = Parse("fixed:rate=10gbit,window=1MiB")
	require.NoError(t, err)
	require.Equal(t, Fixed{10 * units.Gbit, units.MiB}, s.New(path))
	s, err = Parse("none")
	require.NoError(t, err)
	require.Equal(t, Fixed{}, s.New(path))
}

func TestParseRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"cubic":                   "choose one of auto, none, fixed, bbr, search, dcqcn, swift, nscc, hpcc",
		"":                        "choose one of",
		"dcqcn:quick":             "choose sigcomm15 or hpcc",
		"nscc:quick":              `it has no preset "quick"`,
		"dcqcn:ai=1furlong":       `ai: rate "1furlong": unknown unit`,
		"dcqcn:hpcc,hpcc":         "write each constant once, as name=value",
		"dcqcn:ai=1gbit,ai=2gbit": "write each constant once",
		"dcqcn:g=2":               "must be above 0 and below 1",
		"dcqcn:g=x":               `"x" is no number`,
		"dcqcn:clamp=maybe":       "write true or false",
		"swift:hpcc":              `no preset "hpcc"`,
		"swift:rate=1gbit":        `no constant "rate"`,
		"swift:reset=1.5":         "no whole number",
		"hpcc:eta=2":              "must be within 0.5 and 1",
		"fixed":                   "give it a limit, rate= or window=",
		"fixed:rate=0":            "give it a limit",
		"none:rate=1gbit":         `no constant "rate"`,
	} {
		_, err := Parse(in)
		require.ErrorContains(t, err, want, in)
		require.NotContains(t, err.Error(), "\n")
	}
}

// Devices tell less than simulated networks do.
func TestCheckDevice(t *testing.T) {
	for name, want := range map[string]string{
		"hpcc": "what switches write into packets", "nscc": "the mark of each packet", "dcqcn": "give a rate", "auto": "", "bbr": "", "swift": "",
	} {
		spec, err := Parse(name)
		require.NoError(t, err)
		if want == "" {
			require.NoError(t, spec.CheckDevice(0), name)
		} else {
			require.ErrorContains(t, spec.CheckDevice(0), want, name)
		}
		require.Equal(t, name == "hpcc" || name == "nscc", spec.CheckDevice(units.Gbit) != nil, name)
	}
}

// Every name is in the help and parses bare, but one.
func TestNamesAndHelp(t *testing.T) {
	for _, n := range Names() {
		spec := n
		if n == "fixed" {
			spec = "fixed:rate=1gbit" // which limits nothing without a limit
		}
		_, err := Parse(spec)
		require.NoError(t, err)
		require.Contains(t, "\n"+Help, "\n"+n)
	}
	require.Equal(t, len(Names())+2, strings.Count(Help, "\n")) // three of them take two lines
}

func FuzzParse(f *testing.F) {
	f.Add("dcqcn:hpcc,g=0.5,ai=1gbit")
	f.Add("swift:flowmin=NaN,max=1e300,min=0x1p-3")
	f.Fuzz(func(t *testing.T, in string) {
		s, err := Parse(in)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		c := s.New(Path{LineRate: units.Gbit, BaseRTT: units.Millisecond, MTU: 1500})
		c.OnSent(1, 1500, 1500)
		c.OnCNP(2)
		c.OnAck(3, &Ack{RTT: 5, Acked: 1500})
		c.OnLoss(4, Loss{Bytes: 1500, Kind: LossTimeout})
		rate, window := c.Limits(1e9)
		require.True(t, rate >= 0 && window >= 0)
	})
}
