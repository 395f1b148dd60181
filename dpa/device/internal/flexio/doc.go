// SPDX-License-Identifier: Apache-2.0

// Package flexio calls NVIDIA's FlexIO host library and libibverbs without cgo, as far as a loader for the DPA
// needs them. Build it with the tag flexio: a program that contains it links the C library dynamically.
//
// Structures are laid out as FlexIO 24.10 publishes them (flexio.h); a test compares them with a C compiler's.
package flexio
