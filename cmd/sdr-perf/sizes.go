// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/sdr-rdma/go-sdr/units"

// maxSize is beyond every machine's memory, and leaves room for arithmetic.
const maxSize = 64 * units.TiB
