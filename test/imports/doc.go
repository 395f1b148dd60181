// SPDX-License-Identifier: Apache-2.0

// Package imports holds one test: that the packages of go-sdr import each other in one direction
// only, and that protocol cores reach no clock, socket, file or lock and start no goroutine. The rules are in
// rules_test.go, each with its reason. They are about direct imports of files that are not tests;
// a folder that does not exist yet breaks no rule.
package imports
