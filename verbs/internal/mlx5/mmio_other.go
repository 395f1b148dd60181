// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package mlx5

// The build ends here on purpose: stores to a device need assembly, which is there for amd64 and arm64.
var _ = package_verbs_has_no_device_stores_for_this_processor
