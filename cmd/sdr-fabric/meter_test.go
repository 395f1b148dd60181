// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeter(t *testing.T) {
	var b bytes.Buffer
	m := newMeter(&b, "work", 1, 3, 100)
	m.skip(2)
	m.piece(0)(1)
	require.Empty(t, b.String(), "nothing in the first two seconds")
	m.begun = m.begun.Add(-10 * time.Second)
	m.shown = m.begun
	m.piece(1)(0.5)
	require.Equal(t, "sdr-fabric: work: 62.5 % done, about 6s left\n", b.String())
	m.piece(1)(0.6)
	require.Equal(t, 1, strings.Count(b.String(), "\n"), "not more often than every two seconds")
}
