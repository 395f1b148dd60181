// SPDX-License-Identifier: Apache-2.0

//go:build !race

package reliability_test

// raceEnabled makes tests in virtual time smaller.
const raceEnabled = false
