// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	for _, name := range Names() {
		s, err := New(name, Params{})
		require.NoError(t, err, name)
		require.Equal(t, name, s.Name())
		require.Equal(t, name != "none", Reliable(name))
	}
	_, err := New("tcp", Params{})
	require.EqualError(t, err, `unknown reliability scheme "tcp": choose among adaptive, ec-mds, ec-xor, none, sr, sr-nack, strack`)
}

func TestUsed(t *testing.T) {
	p := Params{Alpha: 1.5, Beta: 0.25, Code: Code{16, 4}}
	require.Equal(t, Params{Alpha: 1.5}, Used("sr", p))
	require.Equal(t, Params{Alpha: 2}, Used("sr-nack", Params{}))
	require.Equal(t, Params{Beta: 0.25, Code: Code{16, 4}}, Used("ec-mds", p))
	require.Equal(t, Params{Beta: 0.5, Code: Code{32, 8}}, Used("ec-xor", Params{}))
	require.Equal(t, Params{}, Used("none", p))
}

func TestFlags(t *testing.T) {
	parse := func(args ...string) (Params, error) {
		var p Params
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.Register(f)
		if err := f.Parse(args); err != nil {
			return p, err
		}
		return p, p.Check()
	}
	p, err := parse("--alpha", "0.5", "--beta=1", "--ec", "20,5")
	require.NoError(t, err)
	require.Equal(t, Params{Alpha: 0.5, Beta: 1, Code: Code{20, 5}}, p)
	for _, args := range [][]string{
		{"--alpha", "-1"}, {"--alpha", "65"}, {"--alpha", "nan"}, {"--alpha", "inf"}, {"--beta", "1e-9"},
		{"--ec", "32"}, {"--ec", "32,x"}, {"--ec", "8,32"}, {"--ec", "250,50"}, {"--ec", "-1,-1"},
	} {
		_, err := parse(args...)
		require.Error(t, err, "%v", args)
		require.Contains(t, err.Error(), args[0], "the error names the flag")
	}
}
