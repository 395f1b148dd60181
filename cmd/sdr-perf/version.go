// SPDX-License-Identifier: Apache-2.0

package main

import "runtime/debug"

// version is that of the module, with the commit when it was built from a working copy.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
