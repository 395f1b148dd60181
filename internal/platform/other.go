// SPDX-License-Identifier: Apache-2.0

//go:build !linux || !(amd64 || arm64)

package platform

// The compiler prints this, because it is no number.
const _ int = "go-sdr runs on Linux on amd64 and arm64 only: build there, or with GOOS=linux and GOARCH=amd64 or arm64"
