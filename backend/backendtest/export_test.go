// SPDX-License-Identifier: Apache-2.0

package backendtest

// What the tests of the suite, which also run the cases of package sdrtest, see of it.
const (
	CookieUC = cookieUC
	Guard    = guard
)

// Cases are the cases of every device.
func Cases() []Case { return cases }
