// SPDX-License-Identifier: Apache-2.0

//go:build race

package fabric

// underRace: the detector makes everything ten times as slow and, in one goroutine, has nothing to
// find. Statistics then take the small cases only.
const underRace = true
