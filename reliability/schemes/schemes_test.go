// SPDX-License-Identifier: Apache-2.0

package schemes

import (
	"testing"

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
	require.EqualError(t, err, `choose scheme: invalid argument: unknown reliability scheme "tcp": choose among adaptive, ec-mds, ec-xor, none, sr, sr-nack, strack, strack-p`)
}

func TestUsed(t *testing.T) {
	p := Params{Alpha: 1.5, Beta: 0.25, Code: Code{16, 4}}
	require.Equal(t, Params{Alpha: 1.5}, Used("sr", p))
	require.Equal(t, Params{Alpha: 2}, Used("sr-nack", Params{}))
	require.Equal(t, Params{Beta: 0.25, Code: Code{16, 4}}, Used("ec-mds", p))
	require.Equal(t, Params{Beta: 0.5, Code: Code{32, 8}}, Used("ec-xor", Params{}))
	require.Equal(t, Params{}, Used("none", p))

	require.Equal(t, Params{}, Used("tcp", p), "there is no such scheme")
	require.False(t, Reliable("tcp"))
}
