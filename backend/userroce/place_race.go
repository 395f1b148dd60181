// SPDX-License-Identifier: Apache-2.0

//go:build race

package userroce

// place is a loop under the race detector, because copy becomes a call into the runtime, which reports
// to the detector even from here.
//
//go:norace
func place(dst, src []byte) {
	for i := range src {
		dst[i] = src[i]
	}
}
