// SPDX-License-Identifier: Apache-2.0

// Package device holds the receive handler of package dpa as code for the Data Path Accelerator of a
// BlueField-3: C for rv64imac_zbs, in src, which links nothing but the few functions of abi.h.
//
// There is no Go code to call. The package's tests build the handler with a cross compiler, run it under
// qemu-riscv64, and compare it with package dpa on the same completions. docs/dpa.md says what that proves
// and what needs the hardware.
package device
