// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAddCountsAll: no counter is left out of a sum.
func TestAddCountsAll(t *testing.T) {
	var one, two Stats
	n := uint64(0)
	var fill func(a, b reflect.Value)
	fill = func(a, b reflect.Value) {
		for i := range a.NumField() {
			switch f := a.Field(i); f.Kind() {
			case reflect.Struct:
				fill(f, b.Field(i))
			case reflect.Uint64:
				n++
				f.SetUint(n)
				b.Field(i).SetUint(2 * n)
			}
		}
	}
	fill(reflect.ValueOf(&one).Elem(), reflect.ValueOf(&two).Elem())
	sum := one
	sum.Add(one)
	require.Equal(t, two, sum)
}

// TestAddTakesChoices: code and explanation are those of one choice, the latest.
func TestAddTakesChoices(t *testing.T) {
	var s Stats
	s.Add(Stats{Sent: 1, Explain: "a code", K: 16, M: 4})
	require.Equal(t, Stats{Sent: 1, Explain: "a code", K: 16, M: 4}, s)
	s.Add(Stats{Sent: 2, Explain: "no code"})
	require.Equal(t, Stats{Sent: 3, Explain: "no code"}, s)
	s.Add(Stats{K: 16, M: 4}) // what the other direction uses
	require.Equal(t, Stats{Sent: 3, Explain: "no code"}, s)

	s = Stats{}
	s.Add(Stats{K: 32, M: 8}) // a scheme that was configured
	s.Add(Stats{Sent: 5})
	require.Equal(t, Stats{Sent: 5, K: 32, M: 8}, s)
}
