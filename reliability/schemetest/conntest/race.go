// SPDX-License-Identifier: Apache-2.0

//go:build race

package conntest

// raceDetector leaves out what takes long.
const raceDetector = true
