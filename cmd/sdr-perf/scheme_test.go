// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sdr-rdma/go-sdr/reliability/schemes"
)

func TestSchemeFlags(t *testing.T) {
	parse := func(args ...string) (schemes.Params, error) {
		var p schemeParams
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.register(f)
		if err := f.Parse(args); err != nil {
			return p.Params, err
		}
		return p.Params, p.check()
	}
	p, err := parse("--alpha", "0.5", "--beta=1", "--ec", "20,5")
	require.NoError(t, err)
	require.Equal(t, schemes.Params{Alpha: 0.5, Beta: 1, Code: schemes.Code{K: 20, M: 5}}, p)
	for _, args := range [][]string{
		{"--alpha", "-1"}, {"--alpha", "65"}, {"--alpha", "nan"}, {"--alpha", "inf"}, {"--beta", "1e-9"},
		{"--ec", "32"}, {"--ec", "32,x"}, {"--ec", "8,32"}, {"--ec", "250,50"}, {"--ec", "-1,-1"},
	} {
		_, err := parse(args...)
		require.Error(t, err, "%v", args)
		require.Contains(t, err.Error(), args[0], "the error names the flag")
	}
}
