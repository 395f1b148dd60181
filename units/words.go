// SPDX-License-Identifier: Apache-2.0

//go:build 386 || arm || mips || mipsle

package units

// All packages import this one, and many count in ints what 32 bits don't hold. The build ends before it comes to them.
import _ "github.com/sdr-rdma/go-sdr/internal/platform"
