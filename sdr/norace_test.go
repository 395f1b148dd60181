// SPDX-License-Identifier: Apache-2.0

//go:build !race

package sdr_test

// raceEnabled makes tests smaller that the race detector slows too much.
const raceEnabled = false
