// SPDX-License-Identifier: Apache-2.0

// Package api holds one test: that the exported API of go-sdr is what the files in testdata say,
// one for each package that others can import. After a change that is meant, write them anew with
//
//	go test ./test/api -update
//
// so that the change of the API shows in the change of the code. What is compared is the source of
// declarations without comments and bodies, for linux/amd64. What a declaration takes from other
// packages counts by name.
package api
