// SPDX-License-Identifier: Apache-2.0

//go:build !race

package conntest_test

const seeds = 10
