// SPDX-License-Identifier: Apache-2.0

// Package platform ends builds for other systems than those that the module runs on with one sentence about it. Packages that
// don't build there import it, so that the compiler doesn't come to the names that are missing in them.
package platform
