// SPDX-License-Identifier: Apache-2.0

// Package device is the packet engine of package dpa on the Data Path Accelerator of a BlueField-3: the receive
// handler as C for rv64imac_zbs, in src, which links nothing but the few functions of abi.h, and Engine, which loads it.
//
// Engine implements dpa.Engine and is there with the build tag flexio, on Linux: it calls NVIDIA's FlexIO library, by
// way of purego. No BlueField has run it. The package's tests, with the tag dpa, build the handler with a cross
// compiler, run it under qemu-riscv64, and compare it with package dpa on the same completions; a fake of FlexIO's
// library runs it for the loader. docs/dpa.md says what that proves and what needs the hardware.
package device
