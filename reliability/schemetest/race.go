// SPDX-License-Identifier: Apache-2.0

//go:build race

package schemetest

// raceDetector lowers the number of seeds: cores have no goroutine to watch.
const raceDetector = true
