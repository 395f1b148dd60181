// SPDX-License-Identifier: Apache-2.0

// Package names holds two tests: that the doc links of all comments, and the functions that docs/architecture.md
// walks through, name what is declared.
package names
